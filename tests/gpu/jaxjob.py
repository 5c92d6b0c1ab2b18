# SPDX-License-Identifier: Apache-2.0
"""A JAX job as users write them: one process, all GPUs that it sees, a jitted training step (with a psum over the GPUs
by pmap). It knows nothing of the tracer; its log has a line a step: number, when it ended, how long the host took until
it waits for the GPU."""
import argparse
import os
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float, default=30)
parser.add_argument("--width", type=int, default=1024)
parser.add_argument("--layers", type=int, default=8)
parser.add_argument("--prefix", default="/tmp/jax")
args = parser.parse_args()
devices = jax.local_device_count()


def loss(weights, x):
    for w in weights:
        x = jax.nn.gelu(x @ w)
    return jnp.mean(x * x)


def step(weights, x):
    value, grads = jax.value_and_grad(loss)(weights, x)
    grads = jax.lax.pmean(grads, "gpus")
    return [w - 1e-4 * g for w, g in zip(weights, grads)], value


def main():
    keys = jax.random.split(jax.random.PRNGKey(1), args.layers)
    weights = [jax.random.normal(k, (args.width, args.width)) / args.width**0.5 for k in keys]
    weights = [jnp.broadcast_to(w, (devices, *w.shape)) for w in weights]
    x = jax.random.normal(keys[0], (devices, 256, args.width))
    run, begin, n = jax.pmap(step, axis_name="gpus"), time.monotonic(), 0
    with open(f"{args.prefix}.steps.0", "w", buffering=1) as log:
        while time.monotonic() - begin < args.seconds:
            host_begin_ns = time.monotonic_ns()
            weights, value = run(weights, x)
            host_ns = time.monotonic_ns() - host_begin_ns
            value.block_until_ready()
            log.write(f"{n} {time.monotonic_ns()} {host_ns}\n")
            n += 1


main()
