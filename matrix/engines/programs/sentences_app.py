"""An ASGI application with a model of sentence-transformers of random weights: `sentences_app:app`.

It takes a document with `texts`, and answers with the first numbers of each text's vector and the
process that computed them.
"""

import json
import os
import tempfile
from typing import Any

import torch
from sentence_transformers import SentenceTransformer, models
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers import models as kinds
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

WORDS = 30_522


def loaded() -> SentenceTransformer:
    """A model of the size of all-MiniLM-L6-v2, loaded from a folder as one that is downloaded."""
    words = {"[PAD]": 0, "[UNK]": 1} | {f"w{i}": i for i in range(2, WORDS)}
    tokenizer = Tokenizer(kinds.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=128
    )
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=WORDS, hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
        intermediate_size=1536,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        fast.save_pretrained(folder)
        BertModel(config).save_pretrained(folder)
        parts = [models.Transformer(folder), models.Pooling(384)]
        return SentenceTransformer(modules=parts, device="cpu")


MODEL = loaded()


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    vectors = MODEL.encode(json.loads(body)["texts"], show_progress_bar=False)
    answer = {"vectors": [vector[:4].tolist() for vector in vectors], "pid": os.getpid()}
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(answer).encode()})
