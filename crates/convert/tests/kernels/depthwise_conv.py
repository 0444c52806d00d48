import numpy as np


# `in` is a keyword of Python, so the arguments come as a dictionary.
def reference(**given):
    H, W = given["H"], given["W"]
    padded = np.pad(given["in"], ((0, 0), (1, 1), (1, 1), (0, 0)))
    total = 0.0
    for r in range(3):
        for s in range(3):
            total = total + padded[:, r : r + H, s : s + W, :] * given["filter"][r, s]
    return total
