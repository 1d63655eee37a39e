/** What the header of a GGUF file says of its model: which one it is, how much it reads at a time, what it can. Pure. */
import { DamagedModel } from './cursor.ts'
import type { GgufHeader } from './header.ts'

/** What a server keeps of each token that it has read, layer by layer: keys and values of attention. */
export interface CacheShape {
  /** Numbers of all layers together, for one token. */
  valuesPerToken: number
}

export interface GgufFacts {
  architecture: string
  name: string | null
  /** Such as `Q4_K_M`; null where it is not known. */
  quantization: string | null
  /** Tokens that it was trained for; null where that is not said. */
  contextLength: number | null
  layers: number
  embeddingLength: number
  vocabulary: number
  cache: CacheShape
  /** `projector`: it turns pictures or sound into what another model reads. */
  kind: 'chat' | 'embeddings' | 'reranker' | 'projector'
  /** What a projector reads. */
  reads: { image: boolean; audio: boolean }
  hasTokenizer: boolean
  /** What tells a server how a conversation is written; null where there is none. */
  template: { hasTools: boolean; hasThoughts: boolean } | null
  /** Which of how many files it is, from 0; null where it is whole. */
  shard: { index: number; count: number } | null
}

/** The names of `general.file_type` (https://github.com/ggml-org/llama.cpp, include/llama.h, llama_ftype). */
const FILE_TYPES: Readonly<Record<number, string>> = {
  ...{ 0: 'F32', 1: 'F16', 2: 'Q4_0', 3: 'Q4_1', 7: 'Q8_0', 8: 'Q5_0', 9: 'Q5_1', 10: 'Q2_K', 11: 'Q3_K_S' },
  ...{ 12: 'Q3_K_M', 13: 'Q3_K_L', 14: 'Q4_K_S', 15: 'Q4_K_M', 16: 'Q5_K_S', 17: 'Q5_K_M', 18: 'Q6_K' },
  ...{ 19: 'IQ2_XXS', 20: 'IQ2_XS', 21: 'Q2_K_S', 22: 'IQ3_XS', 23: 'IQ3_XXS', 24: 'IQ1_S', 25: 'IQ4_NL' },
  ...{ 26: 'IQ3_S', 27: 'IQ3_M', 28: 'IQ2_S', 29: 'IQ2_M', 30: 'IQ4_XS', 31: 'IQ1_M', 32: 'BF16' },
  ...{ 36: 'TQ1_0', 37: 'TQ2_0', 38: 'MXFP4' },
}

/** A header that says more of these would make an estimate of nonsense. */
const MOST = 2 ** 31

/** Throws a DamagedModel where it does not say what every model says. */
export function toFacts({ values }: GgufHeader): GgufFacts {
  const text = (key: string) => {
    const value = values.get(key)
    return typeof value === 'string' && value.trim() !== '' ? value.trim() : null
  }
  const number = (key: string) => {
    const value = values.get(key)
    return typeof value === 'number' && value >= 0 && value <= MOST ? value : null
  }
  const architecture = text('general.architecture')
  const [index, count] = [number('split.no'), number('split.count')]
  const shard = count !== null && count > 1 ? { index: index ?? 0, count } : null
  // Later parts of a model say nothing else.
  if (architecture === null && !(shard && shard.index > 0))
    throw new DamagedModel('is no model: its header does not say of which architecture it is')
  const own = (key: string) => number(`${architecture}.${key}`)
  const tokens = values.get('tokenizer.ggml.tokens')
  const template = text('tokenizer.chat_template')
  const hasAudio = values.get('clip.has_audio_encoder') === true
  return {
    architecture: architecture ?? '',
    name: text('general.name'),
    quantization: FILE_TYPES[number('general.file_type') ?? -1] ?? null,
    contextLength: own('context_length') || null,
    layers: own('block_count') ?? 0,
    embeddingLength: own('embedding_length') ?? 0,
    vocabulary: own('vocab_size') ?? (typeof tokens === 'object' ? tokens.length : 0),
    cache: { valuesPerToken: toValuesPerToken(architecture ?? '', values, own) },
    kind: toKind(architecture ?? '', text('general.type'), own('pooling_type')),
    // Those of before there was sound do not say that they are for pictures.
    reads: { image: (values.get('clip.has_vision_encoder') ?? !hasAudio) === true, audio: hasAudio },
    hasTokenizer: text('tokenizer.ggml.model') !== null,
    template: template === null ? null : toTemplate(template),
    shard,
  }
}

const toTemplate = (template: string) => ({
  hasTools: /\btools\b/.test(template),
  hasThoughts: /<think>|enable_thinking|<\|channel\|>/.test(template),
})

/** Architectures that read both ways, and write nothing. */
const ENCODERS = /bert|^(t5encoder|gemma-embedding)$/
/** `LLAMA_POOLING_TYPE_RANK` */
const RANK = 4

function toKind(architecture: string, type: string | null, pooling: number | null): GgufFacts['kind'] {
  if (architecture === 'clip' || type === 'mmproj') return 'projector'
  if (pooling === RANK) return 'reranker'
  return (pooling ?? 0) > 0 || ENCODERS.test(architecture) ? 'embeddings' : 'chat'
}

/** Heads may be told layer by layer: those without have no attention, and keep nothing. */
function toValuesPerToken(
  architecture: string,
  values: GgufHeader['values'],
  own: (key: string) => number | null,
): number {
  const layers = own('block_count') ?? 0
  const heads = own('attention.head_count')
  const perHead = heads ? (own('embedding_length') ?? 0) / heads : 0
  const [keys, vectors] = [own('attention.key_length') ?? perHead, own('attention.value_length') ?? perHead]
  const said = values.get(`${architecture}.attention.head_count_kv`)
  const each = typeof said === 'object' ? said.numbers : null
  const kvHeads = each
    ? each.reduce((sum, n) => sum + Math.max(0, n), 0)
    : layers * (own('attention.head_count_kv') ?? heads ?? 0)
  return kvHeads * (keys + vectors)
}
