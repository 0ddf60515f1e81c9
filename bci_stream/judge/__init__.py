"""The judge: folds the events of each run into its log and verdicts; one module for each command."""
