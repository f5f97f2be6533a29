"""What tests share: families of tokenizers, fresh references, hostile texts, shared texts."""
