"""
kernel_step.py [STEPS] - a training step of a small transformer, for measuring its kernels (2 to 12
us each on an H100): two steps to warm up, then STEPS (1) between cudaProfilerStart and -Stop.
"""
import sys

import torch
from torch import nn
from torch.nn import functional

ROWS, WIDTH, TOKENS, WORDS, CLASSES = 16, 512, 128, 4096, 1024

torch.manual_seed(1)
torch.backends.cuda.matmul.allow_tf32 = True


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_before = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm_after = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        qkv = self.qkv(self.norm_before(x)).view(-1, TOKENS, 3, 8, WIDTH // 8)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.norm_after(x))))


net = nn.Sequential(nn.Embedding(WORDS, WIDTH), Block(), nn.Linear(WIDTH, CLASSES)).cuda()
optimiser = torch.optim.AdamW(net.parameters(), lr=1e-4, foreach=True)
x = torch.randint(0, WORDS, (ROWS, TOKENS), device="cuda")
y = torch.randint(0, CLASSES, (ROWS, TOKENS), device="cuda")


def step():
    optimiser.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = functional.cross_entropy(net(x).float().flatten(0, 1), y.flatten())
    loss.backward()
    optimiser.step()
    return loss


for _ in range(2):
    step()
torch.cuda.synchronize()
torch.cuda.profiler.start()
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
    last = step()
torch.cuda.synchronize()
torch.cuda.profiler.stop()
print(f"loss {last.item():.4f}")
