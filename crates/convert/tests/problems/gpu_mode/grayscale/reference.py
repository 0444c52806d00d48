import torch


def generate_input(height: int, width: int, seed: int):
    torch.manual_seed(seed)
    image = torch.rand((height, width, 3), device="cuda", dtype=torch.float32)
    gray = torch.empty((height, width), device="cuda", dtype=torch.float32)
    return {"image": image, "gray": gray}


def ref_kernel(data):
    image = data["image"]
    gray = data["gray"]
    red, green, blue = image[..., 0], image[..., 1], image[..., 2]
    gray[:] = 0.299 * red + 0.587 * green + 0.114 * blue
    return gray
