"""Drives a running server through the official OpenAI client. Usage: test_openai.py BASE_URL MODEL

The server must answer with some text; what it says does not matter. Exits 0 when everything held.
"""

import sys

import openai

MESSAGES = [{"role": "user", "content": "is it waterproof?"}]


def models(client, model):
    page = client.models.list()
    assert [entry.id for entry in page.data] == [model], page
    assert client.models.retrieve(model) == page.data[0]


def completion(client, model):
    answer = client.chat.completions.create(model=model, messages=MESSAGES)
    choice = answer.choices[0]
    assert choice.message.role == "assistant" and choice.message.content, answer
    assert choice.finish_reason == "stop", answer
    usage = answer.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.prompt_tokens > 0 and usage.completion_tokens > 0
    # An answer goes back into the conversation as the client holds it.
    earlier = [*MESSAGES, choice.message, {"role": "user", "content": "and warm?"}]
    client.chat.completions.create(model=model, messages=earlier)


def streaming(client, model):
    whole = client.chat.completions.create(model=model, messages=MESSAGES, temperature=0)
    stream = client.chat.completions.create(
        model=model,
        messages=MESSAGES,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(
        choice.delta.content or "" for chunk in chunks for choice in chunk.choices
    )
    assert text == whole.choices[0].message.content, (text, whole)
    assert chunks[-1].usage == whole.usage and not chunks[-1].choices
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
    assert reasons[-1] == whole.choices[0].finish_reason
    assert all(reason is None for reason in reasons[:-1])


def early_close(client, model):
    with client.chat.completions.create(model=model, messages=MESSAGES, stream=True) as stream:
        for _ in stream:
            break


def parameters(client, model):
    client.chat.completions.create(
        model=model,
        messages=[
            {"role": "developer", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        ],
        temperature=0.7,
        top_p=0.9,
        presence_penalty=0.1,
        frequency_penalty=-0.1,
        seed=7,
        stop=["STOP", "\n\n\n\n"],
        max_completion_tokens=16,
        n=1,
        user="tester",
        extra_body={"top_k": 20, "min_p": 0.05, "repetition_penalty": 1.1},
    )


def seeds(client, model):
    def say(seed):
        answer = client.chat.completions.create(
            model=model, messages=MESSAGES, seed=seed, temperature=1, max_tokens=16
        )
        return answer.choices[0].message.content

    assert say(2**63 - 1) == say(2**63 - 1)


def errors(client, model):
    def refused(kind, code, param, **fields):
        fields = {"model": model, "messages": MESSAGES, **fields}
        try:
            client.chat.completions.create(**fields)
        except kind as error:
            assert (error.code, error.param) == (code, param), error
            assert error.type == "invalid_request_error", error
            assert error.request_id == error.body["request_id"], error
        else:
            raise AssertionError(f"{param} was not refused")

    bad = openai.BadRequestError
    refused(openai.NotFoundError, "model_not_found", "model", model="no-such-model")
    refused(bad, "invalid_parameter", "temperature", temperature=3)
    refused(bad, "invalid_parameter", "stop[0]", stop=[""])
    refused(bad, "invalid_parameter", "n", n=1_000_000)
    refused(bad, "unsupported_parameter", "n", n=2)
    refused(bad, "unsupported_parameter", "logit_bias", logit_bias={"99999999": 5})
    refused(bad, "unsupported_parameter", "logprobs", logprobs=True)
    refused(bad, "unsupported_parameter", "beam_width", extra_body={"beam_width": 4})
    refused(bad, "missing_parameter", "messages", messages=[])
    refused(bad, "context_length_exceeded", "max_tokens", max_tokens=10**9)
    refused(
        bad,
        "unsupported_parameter",
        "messages[0].role",
        messages=[{"role": "tool", "content": "x", "tool_call_id": "y"}],
    )


def main():
    base_url, model = sys.argv[1:]
    client = openai.OpenAI(base_url=base_url, api_key="unused", max_retries=0, timeout=60)
    for check in (models, completion, streaming, early_close, parameters, seeds, errors):
        check(client, model)
        print("ok", check.__name__)


if __name__ == "__main__":
    main()
