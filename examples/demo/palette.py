"""Colours of the picture: Okabe and Ito's, told apart by colour-blind readers and in grey."""

OUTRIDER = "#0072B2"
ZERO = "#E69F00"
LARGEST = "#CC79A7"
GREY = "#666666"
LINE = "#BBBBBB"
