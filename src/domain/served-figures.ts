/** What is known of a model at a local server while that runs: what it says itself, and what was measured here; null = not known. */
export interface ServedFigures {
  /** Of one request, in tokens. */
  context_length: number | null
  /** How its weights are kept, such as `Q4_K_M`. */
  quantization: string | null
  /** Of the file of those. */
  size_bytes: number | null
  /** How fast an answer was written of late. */
  tokens_per_second: number | null
}

/** In words, such as `4096 tokens of context, Q4_K_M, 2.0 GB, 31.5 tokens a second`; '' where nothing is known. */
export const toFigureText = ({
  context_length: context,
  quantization,
  size_bytes: bytes,
  tokens_per_second: speed,
}: ServedFigures): string =>
  [
    context !== null && `${context} tokens of context`,
    quantization,
    bytes !== null && `${(bytes / 1e9).toFixed(1)} GB`,
    speed !== null && `${speed} tokens a second`,
  ]
    .filter(Boolean)
    .join(', ')
