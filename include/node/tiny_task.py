"""Make the tiny task of the ``cpu`` cluster: a base model, its training questions and two evaluation data sets.

Everything is made from one seed: a byte-level BPE tokenizer with a chat template, a Qwen2 of 0.12 M parameters, sums of a
two-digit and a one-digit number, and a supervised warm start. The warm start teaches like sloppy instruction data: the answer
stands in ``\\boxed{}`` in the share ``BOXED`` of the examples and in plain words in the others. So the base model knows the
arithmetic fairly well and the form less than half of the time; reinforcement learning has both to improve, and does.

The evaluation sets are in AISBench's own file formats (datasets/aime2024.py: JSON lines of origin_prompt and gold_answer;
datasets/math.py: one JSON object of problem and solution) and share no sum with the training questions.

Runs in the training environment. Result: counts, the warm start's accuracy and steps, and the hashes of model and evaluation files.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .result import stop_with, write_result

#: What AISBench's aime2024_gen and math_prm800k_500_0shot_cot_gen append to each question.
HINT = "\nPlease reason step by step, and put your final answer within \\boxed{}."
WORDINGS = ("What is {a} + {b}?", "Calculate {a} + {b}.")
BOXED = 0.4
ANSWER_TOKENS = 12
EVALUATION_QUESTIONS = 64
VALIDATION_QUESTIONS = 128
TARGET_ACCURACY = (0.36, 0.60)
CHECK_EVERY = 25
MAX_STEPS = 2000
BATCH = 64
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class Question:
    text: str
    answer: str


@dataclass(frozen=True)
class Questions:
    """Disjoint sums: two evaluation sets (one wording each), the warm start's validation set, the training set."""

    evaluation: tuple[list[Question], list[Question]]
    validation: list[Question]
    training: list[Question]


def make_questions(seed: int) -> Questions:
    """Split all sums of 10..99 and 0..9 into the three uses; a sum belongs to exactly one of them."""
    sums = [(a, b) for a in range(10, 100) for b in range(10)]
    random.Random(seed).shuffle(sums)

    def worded(part: list[tuple[int, int]], *wordings: str) -> list[Question]:
        return [Question(wording.format(a=a, b=b), str(a + b)) for a, b in part for wording in wordings]

    n, v = EVALUATION_QUESTIONS, VALIDATION_QUESTIONS
    return Questions(
        evaluation=(worded(sums[:n], WORDINGS[0]), worded(sums[n : 2 * n], WORDINGS[1])),
        validation=worded(sums[2 * n : 2 * n + v], WORDINGS[0]),
        training=worded(sums[2 * n + v :], *WORDINGS),
    )


def boxed(answer: str) -> str:
    return f"\\boxed{{{answer}}}"


def plain(answer: str) -> str:
    """Say the answer without the box: AISBench and verl both score this as wrong."""
    return f"That makes {answer}."


def write_evaluation_sets(questions: Questions, root: Path) -> str:
    """Write both evaluation sets below AISBench's data root and return the hash of their bytes."""
    aime = root / "ais_bench" / "datasets" / "aime" / "aime.jsonl"
    math = root / "ais_bench" / "datasets" / "math" / "test_prm800k_500.json"
    for path in (aime, math):
        path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"origin_prompt": q.text, "gold_answer": q.answer}) + "\n" for q in questions.evaluation[0]]
    aime.write_text("".join(lines))
    problems = {
        str(index): {"problem": q.text, "solution": f"The sum is ${boxed(q.answer)}$."}
        for index, q in enumerate(questions.evaluation[1])
    }
    math.write_text(json.dumps(problems, indent=1))
    return hashlib.sha256(aime.read_bytes() + math.read_bytes()).hexdigest()


def write_training_sets(questions: Questions, folder: Path) -> None:
    """Write verl's parquet files (columns as in verl's examples/data_preprocess)."""
    import pandas

    for split, part in (("train", questions.training), ("validation", questions.validation)):
        rows = [
            {
                "data_source": "tiny/sums",
                "prompt": [{"role": "user", "content": question.text + HINT}],
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": question.answer},
                "extra_info": {"split": split, "index": index},
            }
            for index, question in enumerate(part)
        ]
        pandas.DataFrame(rows).to_parquet(folder / f"{split}.parquet")


def make_tokenizer(questions: Questions) -> Any:
    """Train a byte-level BPE whose digits stay single tokens; all other words of the task become one token each."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    digits = pre_tokenizers.Digits(individual_digits=True)
    bpe.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    bpe.decoder = decoders.ByteLevel()
    corpus = [f"user\n{q.text}{HINT} assistant\n{boxed(q.answer)} {plain(q.answer)}" for q in questions.training[:200]]
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=640, initial_alphabet=alphabet, special_tokens=special, show_progress=False)
    bpe.train_from_iterator(corpus, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=CHAT_TEMPLATE,
        padding_side="left",
    )


def make_model(tokenizer: Any) -> Any:
    """Build the untrained model. Head size 32, because vLLM's CPU attention refuses 16."""
    from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = Qwen2Config(
        vocab_size=(len(tokenizer) + 63) // 64 * 64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        bos_token_id=None,
        **ends,
    )
    model = Qwen2ForCausalLM(config)
    model.generation_config = GenerationConfig(**ends)
    return model


class WarmStart:
    """Supervised training until the model answers the share ``TARGET_ACCURACY`` of the validation questions."""

    def __init__(self, model: Any, tokenizer: Any, questions: Questions, seed: int) -> None:
        self.model, self.tokenizer, self.questions = model, tokenizer, questions
        self.random = random.Random(seed)
        self.examples = [
            (self._prompt(q), self._answer(boxed(q.answer)), self._answer(plain(q.answer))) for q in questions.training
        ]

    def run(self) -> dict[str, float | int]:
        """Train; return the steps, the seconds and the sampled accuracy that was reached."""
        import torch

        began = time.monotonic()
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-3, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 30))
        accuracy = 0.0
        for step in range(1, MAX_STEPS + 1):
            loss = self.model(**self._batch()).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            if step % CHECK_EVERY == 0:
                accuracy = self.accuracy()
                seconds = time.monotonic() - began
                print(f"step {step}: loss {loss.item():.3f}, answers {accuracy:.0%} right, {seconds:.0f} s", flush=True)
                if accuracy >= TARGET_ACCURACY[0]:
                    break
        return {"steps": step, "accuracy": accuracy, "seconds": round(time.monotonic() - began, 1)}

    def accuracy(self) -> float:
        """Sample one answer per validation question at temperature 1 and count those in the right box."""
        import torch

        prompts = [self._prompt(question) for question in self.questions.validation]
        width, pad = max(map(len, prompts)), self.tokenizer.pad_token_id
        self.model.eval()
        with torch.no_grad():
            sampled = self.model.generate(
                input_ids=torch.tensor([[pad] * (width - len(p)) + p for p in prompts]),
                attention_mask=torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts]),
                max_new_tokens=ANSWER_TOKENS,
                do_sample=True,
                temperature=1.0,
                top_k=0,
            )
        self.model.train()
        said = [self.tokenizer.decode(row[width:], skip_special_tokens=True).strip() for row in sampled]
        right = [text == boxed(question.answer) for text, question in zip(said, self.questions.validation, strict=True)]
        return float(sum(right) / len(right))

    def _prompt(self, question: Question) -> list[int]:
        messages = [{"role": "user", "content": question.text + HINT}]
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def _answer(self, text: str) -> list[int]:
        return [*self.tokenizer(text, add_special_tokens=False).input_ids, self.tokenizer.eos_token_id]

    def _batch(self) -> dict[str, Any]:
        import torch

        chosen = [
            (prompt, in_box if self.random.random() < BOXED else in_words)
            for prompt, in_box, in_words in self.random.sample(self.examples, BATCH)
        ]
        width, pad = max(len(p) + len(a) for p, a in chosen), self.tokenizer.pad_token_id
        ids = torch.tensor([p + a + [pad] * (width - len(p) - len(a)) for p, a in chosen])
        labels = torch.tensor([[-100] * len(p) + a + [-100] * (width - len(p) - len(a)) for p, a in chosen])
        return {"input_ids": ids, "labels": labels, "attention_mask": (ids != pad).long()}


def make(into: Path, seed: int) -> dict[str, object]:
    """Make everything in a temporary folder and rename it; return the record that is also kept in made.json."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    building = into.with_name(f"{into.name}.building-{os.getpid()}")
    building.mkdir(parents=True)
    questions = make_questions(seed)
    evaluation_hash = write_evaluation_sets(questions, building / "evaluation")
    write_training_sets(questions, building)
    tokenizer = make_tokenizer(questions)
    model = make_model(tokenizer)
    warm = WarmStart(model, tokenizer, questions, seed).run()
    low, high = TARGET_ACCURACY
    if not low <= float(warm["accuracy"]) <= high:
        stop_with(
            f"the warm start answers {warm['accuracy']:.0%} after {warm['steps']} steps, outside {low:.0%}-{high:.0%}: "
            "reinforcement learning would have nothing to start from or nothing to gain. Try another model.seed in the suite"
        )
    model.save_pretrained(building / "model")
    tokenizer.save_pretrained(building / "model")
    record = {
        "maker": maker_hash(),
        "seed": seed,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "training_questions": len(questions.training),
        "evaluation_questions": [len(part) for part in questions.evaluation],
        "evaluation_hash": evaluation_hash,
        "model_hash": hashlib.sha256((building / "model" / "model.safetensors").read_bytes()).hexdigest(),
        "warm_start": warm,
    }
    (building / "made.json").write_text(json.dumps(record))
    if into.exists():
        shutil.rmtree(into)
    building.rename(into)
    return record


def maker_hash() -> str:
    """Hash this script: model and data of an older one are made anew."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    arguments = parser.parse_args()
    try:
        record = json.loads((arguments.into / "made.json").read_text())
    except (OSError, ValueError):
        record = {}
    reused = record.get("maker") == maker_hash() and record.get("seed") == arguments.seed
    if reused:
        print(f"reusing {arguments.into}: made by this very script")
    else:
        record = make(arguments.into, arguments.seed)
    write_result({**record, "reused": reused})


if __name__ == "__main__":
    main()
