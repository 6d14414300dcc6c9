"""Trains with Hugging Face's Trainer on a dataset in Bulkhead's workers, and continues in the middle of an epoch.

    python examples/hugging_face_train.py OUT [--steps N] [--resume]

Without --resume it begins; with it, it goes on from the last checkpoint in OUT: no sample is lost, and none is seen twice.
Prints the indices of the samples of each step.
"""

import argparse
import json
import os

import bulkhead.torch
import torch
import transformers
from transformers.trainer_utils import get_last_checkpoint


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, index):
        x = torch.tensor([index / 96])
        return {"index": index, "x": x, "labels": x**2}


class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(1, 1)

    def forward(self, index, x, labels):
        print(index.tolist(), flush=True)
        return {"loss": torch.nn.functional.mse_loss(self.line(x), labels)}


def position(checkpoint, arguments):
    """The file with the loader's position in a checkpoint, one for each process."""
    return os.path.join(checkpoint, f"loader-{arguments.process_index}.json")


class SavePosition(transformers.TrainerCallback):
    def __init__(self, loader):
        self.loader = loader

    def on_save(self, args, state, control, **_):
        with open(position(os.path.join(args.output_dir, f"checkpoint-{state.global_step}"), args), "w") as file:
            json.dump(self.loader.state_dict(), file)


class Trainer(transformers.Trainer):
    """Takes its batches from `loader`, a bulkhead.torch.DataLoader, whose position is part of each checkpoint."""

    def __init__(self, *args, loader, **options):
        super().__init__(*args, callbacks=[SavePosition(loader)], **options)
        self.loader = loader

    def get_train_dataloader(self):
        return self.loader

    def train(self, resume_from_checkpoint=None, **options):
        if resume_from_checkpoint is True:
            resume_from_checkpoint = get_last_checkpoint(self.args.output_dir)
        if resume_from_checkpoint:
            with open(position(resume_from_checkpoint, self.args)) as file:
                self.loader.load_state_dict(json.load(file))
        return super().train(resume_from_checkpoint, **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", help="folder of the checkpoints")
    parser.add_argument("--steps", type=int, default=24, help="steps in all, of 8 samples each; an epoch has 12")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    options = parser.parse_args()
    arguments = transformers.TrainingArguments(
        output_dir=options.out, max_steps=options.steps, save_steps=5, report_to="none", disable_tqdm=True, use_cpu=True,
        ignore_data_skip=True,  # the loader knows where it stands; Trainer would read from the start again
    )
    with bulkhead.torch.DataLoader(Squares(), batch_size=8, shuffle=True, num_workers=1, seed=7) as loader:
        trainer = Trainer(Line(), arguments, loader=loader, train_dataset=Squares())
        trainer.train(resume_from_checkpoint=options.resume or None)


if __name__ == "__main__":
    main()
