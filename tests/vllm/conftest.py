"""What the tests of vLLM share: a second version of the pocket policy, and transformers as the other side.

They run in an environment of their own (`make test-vllm`); where vLLM is not installed they are not collected.
"""

import os
from importlib.util import find_spec

import numpy as np
import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

if find_spec("vllm") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def pocket():
    from collect.model_argument import SHIPPED

    return SHIPPED["textcraft"]


@pytest.fixture(scope="session")
def newer(pocket, tmp_path_factory):
    """The pocket policy with every weight moved, as version 1."""
    import shutil

    import torch
    from safetensors.torch import load_file, save_file

    from collect.policy_directory import write_policy_json

    folder = tmp_path_factory.mktemp("newer") / "v1"
    shutil.copytree(pocket, folder)
    (folder / "policy.json").unlink()
    torch.manual_seed(7)
    weights = load_file(folder / "model.safetensors")
    moved = {name: w + 0.2 * w.float().std().to(w.dtype) * torch.randn_like(w) for name, w in weights.items()}
    save_file(moved, folder / "model.safetensors", metadata={"format": "pt"})
    write_policy_json(folder, name="pocket", version=1, style="terse")
    return folder


@pytest.fixture(scope="session")
def reference():
    """Log-probabilities by transformers in fp32: ids -> of each token after the first, masked where told."""
    import torch
    from transformers import AutoModelForCausalLM

    from collect.model_files import read_mask

    models = {}

    def logprobs(directory, ids, *, temperature=1.0, masked=False):
        if directory not in models:
            models[directory] = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
        model = models[directory]
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([list(ids)])).logits[0].double()
        if masked:
            allowed = read_mask(directory, model.config.vocab_size)
            blocked = torch.ones(logits.shape[-1], dtype=torch.bool)
            blocked[torch.tensor(allowed)] = False
            logits = logits.masked_fill(blocked, float("-inf"))
        whole = torch.log_softmax(logits / temperature, dim=-1)
        return np.asarray(whole[:-1].gather(1, torch.tensor(list(ids))[1:, None])[:, 0])

    return logprobs
