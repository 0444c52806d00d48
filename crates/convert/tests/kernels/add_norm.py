import numpy as np


def reference(residual, x):
    total = residual + x
    y = total / np.sqrt(np.mean(total * total, axis=1, keepdims=True) + 1e-5)
    return {"residual": total, "y": y}
