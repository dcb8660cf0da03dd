"""Answers of libraries that choose functions by the processor: the same everywhere, or not."""

import hashlib
import json
import sqlite3
import ssl
import zlib

import numpy

numbers = numpy.arange(3000, dtype=numpy.float64).reshape(50, 60) / 7
text = "".join(map(chr, range(32, 900)))

for name in ("sha1", "sha256", "sha512", "sha3_256", "blake2b", "md5"):
    print(name, hashlib.new(name, text.encode() * 99).hexdigest())
print(ssl.MemoryBIO().write(b"text"), ssl.RAND_status(), len(ssl.RAND_bytes(9)))
print(hashlib.pbkdf2_hmac("sha256", b"word", b"salt", 99).hex())
print(zlib.crc32(text.encode()), zlib.adler32(text.encode()), zlib.compress(text.encode() * 9)[-8:])
print(hash(json.dumps([text, 1.5e300, {"a": None}])) is None, text.upper()[300:309], text.find("ʰ"))
print(sqlite3.connect(":memory:").execute("select sum(1.5), upper('abc')").fetchone())
print((numbers @ numbers.T).sum().hex(), numpy.linalg.svd(numbers)[1][0].hex())
print(numpy.sin(numbers).sum().hex(), numpy.exp(-numbers).sum().hex(), numbers.sum().hex())
print(numpy.sort(numbers.ravel()[::-1])[:3], numbers.astype("f4").max(), (numbers % 3 < 1).sum())
print(numpy.random.default_rng(7).standard_normal(3), numpy.fft.fft(numbers[0])[1].real.hex())
