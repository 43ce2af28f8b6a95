"""Embeddings: a vector a row, as a column `fixed_size_list<float32>[d]` beside what is there.

    embedder       embedders by name (entry point group `datalake.embedders`), and their options
    vectors        rows of vectors and reasons, and the column's field
    waveforms      the audio of rows, decoded
    pictures       the pictures of rows: a column of images, or keyframes of episodes
    episodes       the set that a table of episodes belongs to
    checkpoints    Hugging Face models by local path, and their digests
    devices        where a model runs

    lfcc_stats     mean and deviation over time of LFCC (`lfcc`) and their differences
    logmel_stats   the same of log-mel bands
    speaker        GE2E speaker embedding, by the package resemblyzer
    hf_audio       WavLM, XLS-R, wav2vec 2.0, HuBERT and their like
    hf_image       CLIP, ViT, DINO and their like
    trajectory     state and action of a robot's episode
    keyframes      a descriptor of pictures made by hand

Embedders are annotators: what a row gets depends on the row and the settings alone. Rows are
embedded one by one, never padded to the length of others.
"""
