"""
Serve with FastAPI
==================

A service answers a JSON record with a probability and its strongest reasons, all by name. It loads one file; XGBoost,
which made the model, is not needed there. FastAPI checks the types of a record, and glasswood its categories.
"""

# %%
# Train anywhere, and save everything that the service needs in one file.
import xgboost

import glasswood

X, y = glasswood.datasets.adult()
frame = X.astype({name: "category" for name in X.columns if X[name].dtype.kind not in "biuf"})
model = xgboost.XGBClassifier(n_estimators=100, max_depth=5, enable_categorical=True).fit(frame, y == y.max())
explainer = glasswood.Explainer(model)
explainer.save("income.glasswood")

# %%
# This is the service. ``strict=True`` refuses a category that the model has never seen, such as one with a typo.
from typing import Any

import fastapi

explainer = glasswood.Explainer.load("income.glasswood").prepare()
forest = glasswood.load("income.glasswood")
predict_row = forest.predictor("probability", names=True, strict=True)
reasons = explainer.row(top=3, names=True)
app = fastapi.FastAPI()


@app.post("/predict")
def predict(record: dict[str, float | str | None]) -> dict[str, Any]:
    """Answer one record; what it lacks counts as missing."""
    try:
        _, probability = predict_row(record)
    except ValueError as error:
        raise fastapi.HTTPException(422, str(error)) from error
    return {"probability": round(float(probability), 4), "reasons": [reason._asdict() for reason in reasons(record)]}


# %%
# ``uvicorn service:app --workers 4`` runs it. Here, a test client sends a complete record, then one with a typo.
from fastapi.testclient import TestClient

client = TestClient(app)
record = {name: None if value != value else value for name, value in X.iloc[0].to_dict().items()}
answer = client.post("/predict", json=record)
print(answer.json())

# %%
refused = client.post("/predict", json={**record, "education": "Bachelor"})
print(refused.status_code, refused.json()["detail"])
assert answer.status_code == 200
assert refused.status_code == 422
