/**
 * The file of a model: all parts of it and its projector, found where somebody points; what its header says of the model; and how much memory
 * a server of it will take.
 */

import { closeSync, fstatSync, openSync, readdirSync, readSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { codeOf } from '../domain/error.ts'
import { type ByteSource, DamagedModel, type GgufHeader, readHeader } from './gguf.ts'

/** What a server keeps of each token that it has read, layer by layer: keys and values of attention. */
interface CacheShape {
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
const MAX = 2 ** 31

/** Throws a DamagedModel where it does not say what every model says. */
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

export interface Estimate {
  /** All in bytes. */
  weights: number
  cache: number
  compute: number
  total: number
}

interface Serving {
  /** Of all files together. */
  fileBytes: number
  /** Tokens of one request. */
  context: number
  /** Requests at a time. */
  slots: number
}

/** A number of the cache is an f16. */
const CACHE_BYTES = 2
/** Tokens that are worked on at a time (`-ub`), in f32. */
const BATCH = 512
const NUMBER_BYTES = 4
/** Rows as wide as an embedding that are alive at a time. */
const ROWS = 8
/** The server itself. */
const PROGRAM_BYTES = 32 * 2 ** 20

export function estimateMemory(facts: GgufFacts, { fileBytes, context, slots }: Serving): Estimate {
  const cache = facts.cache.valuesPerToken * CACHE_BYTES * context * slots
  const compute = BATCH * NUMBER_BYTES * (facts.vocabulary + ROWS * facts.embeddingLength) + PROGRAM_BYTES
  return { weights: fileBytes, cache, compute, total: fileBytes + cache + compute }
}

/** Tried in this order: an agent needs much, a question little. */
const CONTEXTS = [32_768, 16_384, 8_192, 4_096]
/** Where a model does not say what it was trained for. */
const UNSAID = 4_096

/** The largest usual context of a request that fits into so much memory, and that the model was trained for; else the smallest. */
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
  /** The file that an engine is given: of several parts, the first. */
  path: string
  facts: GgufFacts
  /** The number of its files. */
  parts: number
  /** Of all of them, with the projector. */
  bytes: number
  projector: { path: string; reads: GgufFacts['reads'] } | null
  /** Projectors that lie beside it and are not used. */
  otherProjectors: string[]
}

/** @param path full, of a file or a folder. @param projector full path of the one to use, if one was named. */
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
  // In a folder of its own, what lies beside a model is for it.
  const own = projector ?? (isFolder && projectors.length === 1 ? (projectors[0] ?? null) : null)
  return {
    ...{ path: model, facts, parts: parts.length },
    bytes: [...parts, ...(own === null ? [] : [own])].reduce((sum, part) => sum + statOf(part).size, 0),
    projector: own === null ? null : readProjector(own),
    otherProjectors: own === null ? projectors.map((file) => basename(file)) : [],
  }
}

/** Reads what a file says of itself. */
function readFacts(path: string): GgufFacts {
  // A pipe would be waited for, for ever.
  if (!statOf(path).isFile()) throw new DamagedModel(`${path} is no file, but a device or the like.`)
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

/** Any part stands for all of them. */
const toFirstPart = (path: string) => path.replace(PART, '-00001-of-$2.gguf')

function listParts(first: string, { shard }: GgufFacts): string[] {
  const count = Number(PART.exec(first)?.[2] ?? 1)
  if (shard && shard.count !== count)
    throw new DamagedModel(
      `${first} is one of ${shard.count} parts, and its name does not say so: an engine finds the others by names such as MODEL-00001-of-${String(shard.count).padStart(5, '0')}.gguf.`,
    )
  const paths = Array.from({ length: count }, (_, index) =>
    first.replace(PART, `-${String(index + 1).padStart(5, '0')}-of-$2.gguf`),
  )
  const missing = paths.filter((path) => statSync(path, { throwIfNoEntry: false }) === undefined)
  if (missing.length > 0)
    throw new DamagedModel(
      `${first} has ${count} parts, and ${missing.map((path) => basename(path)).join(', ')} ${missing.length === 1 ? 'is' : 'are'} missing: download ${missing.length === 1 ? 'it' : 'them'} into the same folder.`,
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
  if (first === undefined) throw new DamagedModel(`There is no model in ${folder}: no file there ends in .gguf.`)
  if (models.length > 1)
    throw new DamagedModel(
      `There are ${models.length} models in ${folder}: name one of ${models.map((path) => basename(path)).join(', ')}.`,
    )
  return first
}

function requireChat(path: string, { kind, hasTokenizer }: GgufFacts): void {
  if (kind === 'projector')
    throw new DamagedModel(
      `${path} only reads pictures or sound for another model: name that one, with --mmproj ${path}.`,
    )
  if (kind === 'reranker')
    throw new DamagedModel(`${path} only puts texts in order, which nothing can be asked for here.`)
  if (!hasTokenizer)
    throw new DamagedModel(`${path} has no tokenizer, without which no engine serves it: convert it again.`)
}

function readProjector(path: string): { path: string; reads: GgufFacts['reads'] } {
  const { kind, reads } = readFacts(path)
  if (kind !== 'projector')
    throw new DamagedModel(`${path} is a model itself, and nothing by which another one reads pictures.`)
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
      ? `There is no file ${path}.`
      : `${path} cannot be read (${codeOf(error) || 'unknown reason'}): correct who may read it.`,
  )
