/** Finds a model's files, reads facts from the header, and estimates the memory that a server needs. */

import { closeSync, fstatSync, openSync, readdirSync, readSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { codeOf } from '../domain/error.ts'
import { type ByteSource, DamagedModel, type GgufHeader, readHeader } from './gguf.ts'

/** KV cache. */
interface CacheShape {
  /** Per token, all layers together. */
  valuesPerToken: number
}

export interface GgufFacts {
  architecture: string
  name: string | null
  /** Such as `Q4_K_M`; null if unknown. */
  quantization: string | null
  /** Trained context; null if not stated. */
  contextLength: number | null
  layers: number
  embeddingLength: number
  vocabulary: number
  cache: CacheShape
  /** `projector`: encodes images or audio for another model. */
  kind: 'chat' | 'embeddings' | 'reranker' | 'projector'
  /** Input of a projector. */
  reads: { image: boolean; audio: boolean }
  hasTokenizer: boolean
  /** Chat template. */
  template: { hasTools: boolean; hasThoughts: boolean } | null
  /** Part of a split model, from 0. */
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

/** Larger values would make estimates useless. */
const MAX = 2 ** 31

/** @throws a DamagedModel if a mandatory key is missing. */
export function toFacts({ values }: GgufHeader): GgufFacts {
  const text = (key: string) => {
    const value = values.get(key)
    return typeof value === 'string' && value.trim() !== '' ? value.trim() : null
  }
  const number = (key: string) => {
    const value = values.get(key)
    return typeof value === 'number' && value >= 0 && value <= MAX ? value : null
  }
  const architecture = text('general.architecture')
  const [index, count] = [number('split.no'), number('split.count')]
  const shard = count !== null && count > 1 ? { index: index ?? 0, count } : null
  // Later parts of a split model have only the split keys.
  if (architecture === null && !(shard && shard.index > 0))
    throw new DamagedModel('is not a model: its header names no architecture')
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
    // Projectors from before audio support don't say that they encode images.
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

/** Encoder-only architectures. */
const ENCODERS = /bert|^(t5encoder|gemma-embedding)$/
/** `LLAMA_POOLING_TYPE_RANK` */
const RANK = 4

function toKind(architecture: string, type: string | null, pooling: number | null): GgufFacts['kind'] {
  if (architecture === 'clip' || type === 'mmproj') return 'projector'
  if (pooling === RANK) return 'reranker'
  return (pooling ?? 0) > 0 || ENCODERS.test(architecture) ? 'embeddings' : 'chat'
}

/** Heads may be listed by layer; layers without attention have 0 and no cache. */
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

export interface Estimate {
  /** Bytes, like the others. */
  weights: number
  cache: number
  compute: number
  total: number
}

interface Serving {
  fileBytes: number
  context: number
  slots: number
}

/** An f16 per number in the cache. */
const CACHE_BYTES = 2
/** Tokens per batch (`-ub`), in f32. */
const BATCH = 512
const NUMBER_BYTES = 4
/** Embedding-sized rows in use at once. */
const ROWS = 8

const PROGRAM_BYTES = 32 * 2 ** 20

export function estimateMemory(facts: GgufFacts, { fileBytes, context, slots }: Serving): Estimate {
  const cache = facts.cache.valuesPerToken * CACHE_BYTES * context * slots
  const compute = BATCH * NUMBER_BYTES * (facts.vocabulary + ROWS * facts.embeddingLength) + PROGRAM_BYTES
  return { weights: fileBytes, cache, compute, total: fileBytes + cache + compute }
}

/** In this order, since agents need large contexts. */
const CONTEXTS = [32_768, 16_384, 8_192, 4_096]
/** If not stated. */
const UNSAID = 4_096

/** The largest usual context that fits into `most` bytes and the trained context; else the smallest. */
export function chooseContext(
  facts: GgufFacts,
  { fileBytes, slots, most }: Omit<Serving, 'context'> & { most: number },
) {
  const trained = facts.contextLength ?? UNSAID
  const usual = [...new Set(CONTEXTS.map((context) => Math.min(context, trained)))]
  const fits = (context: number) => estimateMemory(facts, { fileBytes, slots, context }).total <= most
  return usual.find(fits) ?? usual.at(-1) ?? UNSAID
}

export interface ModelFiles {
  /** The file to load: the first part of a split model. */
  path: string
  facts: GgufFacts
  parts: number
  /** Includes the projector. */
  bytes: number
  projector: { path: string; reads: GgufFacts['reads'] } | null
  /** Unused projectors in the same folder. */
  otherProjectors: string[]
}

/** @param path full path of a file or folder. @param projector full path, if named. */
export function findModelFiles(path: string, projector: string | null): ModelFiles {
  const isFolder = statOf(path).isDirectory()
  const beside = listModels(isFolder ? path : dirname(path))
  const projectors = beside.filter((file) => isProjector(file))
  const model = isFolder
    ? pickModel(
        path,
        beside.filter((file) => !projectors.includes(file)),
      )
    : toFirstPart(path)
  const facts = readFacts(model)
  requireChat(model, facts)
  const parts = listParts(model, facts)
  // A folder's only projector belongs to its model.
  const own = projector ?? (isFolder && projectors.length === 1 ? (projectors[0] ?? null) : null)
  return {
    ...{ path: model, facts, parts: parts.length },
    bytes: [...parts, ...(own === null ? [] : [own])].reduce((sum, part) => sum + statOf(part).size, 0),
    projector: own === null ? null : readProjector(own),
    otherProjectors: own === null ? projectors.map((file) => basename(file)) : [],
  }
}

function readFacts(path: string): GgufFacts {
  // Opening a pipe would block forever.
  if (!statOf(path).isFile()) throw new DamagedModel(`${path} is not a regular file.`)
  const file = open(path)
  try {
    const { size } = fstatSync(file)
    const source: ByteSource = {
      size,
      read(offset, length) {
        const bytes = new Uint8Array(length)
        return bytes.subarray(0, readSync(file, bytes, 0, length, offset))
      },
    }
    return toFacts(readHeader(source))
  } catch (error) {
    throw error instanceof DamagedModel ? new DamagedModel(`${path} ${error.message}.`) : error
  } finally {
    closeSync(file)
  }
}

const PART = /-(\d{5})-of-(\d{5})\.gguf$/

/** Accepts any part of a split model. */
const toFirstPart = (path: string) => path.replace(PART, '-00001-of-$2.gguf')

function listParts(first: string, { shard }: GgufFacts): string[] {
  const count = Number(PART.exec(first)?.[2] ?? 1)
  if (shard && shard.count !== count)
    throw new DamagedModel(
      `${first} is one of ${shard.count} parts. Rename them to MODEL-00001-of-${String(shard.count).padStart(5, '0')}.gguf and so on, so that the engine finds them all.`,
    )
  const paths = Array.from({ length: count }, (_, index) =>
    first.replace(PART, `-${String(index + 1).padStart(5, '0')}-of-$2.gguf`),
  )
  const missing = paths.filter((path) => statSync(path, { throwIfNoEntry: false }) === undefined)
  if (missing.length > 0)
    throw new DamagedModel(
      `${first} has ${count} parts, but ${missing.map((path) => basename(path)).join(', ')} ${missing.length === 1 ? 'is' : 'are'} missing. Download ${missing.length === 1 ? 'it' : 'them'} into the same folder.`,
    )
  for (const path of paths.slice(1)) readFacts(path)
  return paths
}

const listModels = (folder: string) =>
  readdirSync(folder)
    .filter((name) => /\.gguf$/i.test(name))
    .toSorted()
    .map((name) => join(folder, name))

const isProjector = (path: string) => /mmproj/i.test(basename(path))

function pickModel(folder: string, files: readonly string[]): string {
  const models = [...new Set(files.map(toFirstPart))]
  const [first] = models
  if (first === undefined) throw new DamagedModel(`No model in ${folder}: it has no .gguf files.`)
  if (models.length > 1)
    throw new DamagedModel(
      `${folder} has ${models.length} models. Name one: ${models.map((path) => basename(path)).join(', ')}.`,
    )
  return first
}

function requireChat(path: string, { kind, hasTokenizer }: GgufFacts): void {
  if (kind === 'projector')
    throw new DamagedModel(`${path} is a projector for another model. Name that model, with --mmproj ${path}.`)
  if (kind === 'reranker') throw new DamagedModel(`${path} is a reranker, which is not supported.`)
  if (!hasTokenizer) throw new DamagedModel(`${path} has no tokenizer, so engines can't serve it. Convert it again.`)
}

function readProjector(path: string): { path: string; reads: GgufFacts['reads'] } {
  const { kind, reads } = readFacts(path)
  if (kind !== 'projector') throw new DamagedModel(`${path} is a model, not a projector.`)
  return { path, reads }
}

function statOf(path: string) {
  try {
    return statSync(path)
  } catch (error) {
    throw toUnreadable(path, error)
  }
}

function open(path: string): number {
  try {
    return openSync(path, 'r')
  } catch (error) {
    throw toUnreadable(path, error)
  }
}

const toUnreadable = (path: string, error: unknown) =>
  new DamagedModel(
    codeOf(error) === 'ENOENT'
      ? `File not found: ${path}.`
      : `Can't read ${path} (${codeOf(error) || 'unknown reason'}). Check its permissions.`,
  )
