import numpy as np


def reference(query, cos_table, sin_table, half):
    first, second = query[..., :half], query[..., half:]
    cos, sin = cos_table[:, None, :], sin_table[:, None, :]
    turned = [first * cos - second * sin, second * cos + first * sin]
    return {"rotated": np.concatenate(turned, axis=-1)}
