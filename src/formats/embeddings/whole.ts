/** Writes the vectors of an answer as clients read them. Pure. */
import type { EmbeddingRequest, Vector } from '../../domain/embedding.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import { type Receipt, toUsd } from '../../domain/usage.ts'
import type { Identity } from '../format.ts'

/** The list of embeddings, as JSON text: piece by piece, for thousands of vectors take a while. */
export function* toEmbeddingsJson(
  encoding: EmbeddingRequest['encoding'],
  { model }: Identity,
  events: readonly AnswerEvent[],
  receipt: Receipt,
): Generator<string> {
  const vectors = events.flatMap((event) => (event.kind === 'embeddings' ? event.vectors : []))
  yield '{"object":"list","data":['
  for (const [index, vector] of vectors.entries()) {
    const embedding = encoding === 'base64' ? `"${toBase64(vector)}"` : toNumbers(vector)
    yield `${index === 0 ? '' : ','}{"object":"embedding","index":${index},"embedding":${embedding}}`
  }
  yield `],"model":${JSON.stringify(model)},"usage":${toUsageJson(receipt)}}`
}

/** What came as 32-bit floats is written with all of their digits. */
const toNumbers = (vector: Vector): string =>
  vector instanceof Float32Array ? `[${vector.join(',')}]` : JSON.stringify(vector)

/** Of little-endian 32-bit floats, which is how every machine that this runs on has them. */
function toBase64(vector: Vector): string {
  const { buffer, byteOffset, byteLength } = vector instanceof Float32Array ? vector : Float32Array.from(vector)
  return Buffer.from(buffer, byteOffset, byteLength).toString('base64')
}

/** As JSON text, for `cost` has no exponent. */
function toUsageJson({ usage, costNanoUsd }: Receipt): string {
  const total = usage.prompt + usage.completion
  return `{"prompt_tokens":${usage.prompt},"total_tokens":${total},"cost_nano_usd":${costNanoUsd},"cost":${toUsd(costNanoUsd)}}`
}
