"""Small changes to the files that keep people safe: would any test notice?"""
