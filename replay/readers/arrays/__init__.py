"""Recordings that are named arrays: .npy, .npz, .mat and pickles."""
