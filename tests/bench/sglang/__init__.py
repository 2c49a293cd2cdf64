"""Outrider against SGLang's own adaptive mode, in real SGLang with the step times of a GPU."""
