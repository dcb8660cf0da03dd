"""A forest that was fitted at import, and the words of its training, behind Flask."""

from __future__ import annotations

import numpy as np
from flask import Flask, jsonify, render_template_string, request
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer

WORDS = [f"word{n % 4000} about{n % 977} thing{n % 131}" for n in range(20_000)]
_random = np.random.default_rng(1)
VECTORIZER = TfidfVectorizer(min_df=2).fit(WORDS)
FOREST = RandomForestClassifier(n_estimators=30, max_depth=8, random_state=1).fit(
    _random.random((2000, 12)), _random.integers(0, 3, 2000)
)
PAGE = """{% for word, weight in top %}<li>{{ word }} {{ "%.3f"|format(weight) }}{% endfor %}"""

app = Flask(__name__)


@app.get("/predict")
def predict():
    values = [float(value) for value in request.args["values"].split(",")]
    return jsonify(FOREST.predict_proba([values])[0].tolist())


@app.get("/words/<int:number>")
def words(number: int):
    row = VECTORIZER.transform([WORDS[number]])
    names = VECTORIZER.get_feature_names_out()
    return render_template_string(PAGE, top=[(names[i], row[0, i]) for i in row.indices])
