"""Drives a running server through the official OpenAI client. Usage: test_openai.py BASE_URL MODEL

The server must answer with some text; what it says does not matter. Exits 0 when everything held.
"""

import sys

import openai

MESSAGES = [{"role": "user", "content": "is it waterproof?"}]
# A raw prompt that the model answers; the marker is one control token.
PROMPT = "<|im_start|>assistant\n"


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


def choices(client, model):
    whole = client.chat.completions.create(model=model, messages=MESSAGES, n=3, seed=1)
    assert [choice.index for choice in whole.choices] == [0, 1, 2], whole
    one = client.chat.completions.create(model=model, messages=MESSAGES, n=1, seed=1)
    assert whole.choices[0] == one.choices[0], (whole, one)
    assert whole.usage.prompt_tokens == one.usage.prompt_tokens
    assert whole.usage.completion_tokens > one.usage.completion_tokens
    texts = ["", "", ""]
    stream = client.chat.completions.create(
        model=model, messages=MESSAGES, n=3, seed=1, stream=True
    )
    for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == [choice.message.content for choice in whole.choices], texts


def logprobs(client, model):
    ask = {"model": model, "messages": MESSAGES, "temperature": 0, "logprobs": True}
    whole = client.chat.completions.create(**ask, top_logprobs=4).choices[0]
    content = whole.logprobs.content
    spelled = b"".join(bytes(entry.bytes or []) for entry in content)
    assert spelled.decode() == whole.message.content, content
    for entry in content:
        assert entry.logprob <= 0 and len(entry.top_logprobs) == 4, entry
        assert entry.top_logprobs[0].token == entry.token, entry
    stream = client.chat.completions.create(**ask, top_logprobs=4, stream=True)
    streamed = [
        entry
        for chunk in stream
        for choice in chunk.choices
        if choice.logprobs
        for entry in choice.logprobs.content
    ]
    assert streamed == content, streamed
    bare = client.chat.completions.create(**ask).choices[0].logprobs.content
    assert bare[0].logprob == content[0].logprob and bare[0].top_logprobs == []


def more_parameters(client, model):
    answer = client.chat.completions.create(
        model=model,
        messages=MESSAGES,
        logit_bias={"65": 100},
        extra_body={"min_tokens": 2, "ignore_eos": True, "stop_token_ids": [66]},
        max_tokens=3,
        temperature=0,
    )
    assert answer.choices[0].message.content, answer


def texts(client, model):
    one = client.completions.create(model=model, prompt=PROMPT, temperature=0)
    assert one.object == "text_completion" and one.choices[0].text, one
    assert one.choices[0].finish_reason == "stop" and one.choices[0].logprobs is None
    many = client.completions.create(model=model, prompt=[PROMPT, PROMPT], n=2, temperature=0)
    assert [choice.index for choice in many.choices] == [0, 1, 2, 3], many
    assert {choice.text for choice in many.choices} == {one.choices[0].text}, many
    assert many.usage.prompt_tokens == 2 * one.usage.prompt_tokens
    assert many.usage.completion_tokens == 4 * one.usage.completion_tokens
    stream = client.completions.create(
        model=model,
        prompt=PROMPT,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(choice.text for chunk in chunks for choice in chunk.choices)
    assert text == one.choices[0].text, text
    assert chunks[-1].usage.completion_tokens == one.usage.completion_tokens


def scoring(client, model):
    ask = {"model": model, "prompt": PROMPT, "echo": True, "logprobs": 2, "temperature": 0}
    scored = client.completions.create(**ask, max_tokens=0)
    choice = scored.choices[0]
    assert choice.text == PROMPT and choice.finish_reason == "length", choice
    assert scored.usage.completion_tokens == 0
    likely = choice.logprobs
    assert "".join(likely.tokens) == PROMPT, likely
    assert likely.token_logprobs[0] is None and likely.top_logprobs[0] is None
    assert all(logprob <= 0 for logprob in likely.token_logprobs[1:]), likely
    for token, offset in zip(likely.tokens, likely.text_offset):
        assert PROMPT[offset:].startswith(token), (token, offset)
    for token, logprob, top in list(
        zip(likely.tokens, likely.token_logprobs, likely.top_logprobs)
    )[1:]:
        assert top[token] == logprob and 2 <= len(top) <= 3, top
    longer = client.completions.create(**ask, max_tokens=3).choices[0]
    assert longer.logprobs.token_logprobs[: len(likely.tokens)] == likely.token_logprobs


def errors(client, model):
    def refused(kind, code, param, **fields):
        chat = "prompt" not in fields
        fields = {"model": model, **fields}
        try:
            if chat:
                client.chat.completions.create(**{"messages": MESSAGES, **fields})
            else:
                client.completions.create(**fields)
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
    refused(bad, "invalid_parameter", "logit_bias", logit_bias={"99999999": 5})
    refused(bad, "invalid_parameter", "logit_bias.-1", logit_bias={"-1": 5})
    refused(bad, "invalid_parameter", "top_logprobs", top_logprobs=2)
    refused(bad, "invalid_parameter", "top_logprobs", logprobs=True, top_logprobs=21)
    refused(bad, "unsupported_parameter", "suffix", prompt=PROMPT, suffix="x")
    refused(bad, "unsupported_parameter", "best_of", prompt=PROMPT, best_of=2)
    refused(bad, "invalid_parameter", "prompt", prompt=[])
    refused(bad, "invalid_parameter", "max_tokens", prompt=PROMPT, max_tokens=0)
    refused(bad, "context_length_exceeded", "prompt", prompt="x" * 10_000)
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
    for check in (
        models,
        completion,
        streaming,
        early_close,
        parameters,
        seeds,
        choices,
        logprobs,
        more_parameters,
        texts,
        scoring,
        errors,
    ):
        check(client, model)
        print("ok", check.__name__)


if __name__ == "__main__":
    main()
