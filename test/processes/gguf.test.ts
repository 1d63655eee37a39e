/** Headers of GGUF files: their facts, and that no malformed file is accepted as a model or read endlessly. */
import { describe, expect, test } from 'bun:test'
import { readHeader } from '../../src/processes/gguf.ts'
import { toFacts } from '../../src/processes/model-file.ts'
import { CHAT, makeGguf, PROJECTOR } from '../support/gguf.ts'

const sourceOf = (bytes: Uint8Array) => ({
  size: bytes.length,
  read: (offset: number, length: number) => bytes.subarray(offset, offset + length),
})
const factsOf = (values: Parameters<typeof makeGguf>[0]) => toFacts(readHeader(sourceOf(makeGguf(values))))

test('a model has its name, its context, and its capabilities', () => {
  for (const version of [2, 3])
    expect(factsOf({ version })).toEqual({
      architecture: 'llama',
      name: 'Tiny Chat',
      quantization: 'Q4_K_M',
      contextLength: 8_192,
      layers: 2,
      embeddingLength: 64,
      vocabulary: 3,
      // 2 layers, 2 heads each, keys and values of 16 numbers.
      cache: { valuesPerToken: 128 },
      kind: 'chat',
      reads: { image: true, audio: false },
      hasTokenizer: true,
      template: { hasTools: true, hasThoughts: false },
      shard: null,
    })
})

test('heads may be listed per layer, and have their own size', () => {
  const values = {
    ...CHAT,
    'llama.attention.head_count_kv': [0, 3],
    'llama.attention.key_length': 100,
    'llama.attention.value_length': 20,
  }
  expect(factsOf({ values }).cache).toEqual({ valuesPerToken: 360 })
})

test('a large vocabulary is counted', () => {
  const tokens = Array.from({ length: 100_000 }, (_, n) => `token ${n}`)
  expect(factsOf({ values: { ...CHAT, 'tokenizer.ggml.tokens': tokens } }).vocabulary).toBe(100_000)
})

test.each([
  ['projector', PROJECTOR],
  ['embeddings', { ...CHAT, 'llama.pooling_type': 1 }],
  ['embeddings', { 'general.architecture': 'nomic-bert' }],
  ['reranker', { ...CHAT, 'llama.pooling_type': 4 }],
] as const)('a %s is known as one', (kind, values) => {
  expect(factsOf({ values }).kind).toBe(kind)
})

describe('rejects', () => {
  const whole = makeGguf()
  const patched = (at: number, ...bytes: number[]) => {
    const copy = Uint8Array.from(whole)
    copy.set(bytes, at)
    return copy
  }
  const text = (said: string) => new TextEncoder().encode(said)
  const HUGE = [255, 255, 255, 255, 255, 255, 255, 127]

  test.each<[what: string, bytes: Uint8Array, sentence: string]>([
    ['an empty file', new Uint8Array(0), 'is empty'],
    ['something else', text('PK\x03\x04'), 'is not a GGUF file'],
    ['four letters alone', text('GGUF'), 'is truncated in its header'],
    ['a pointer of git', text('version https://git-lfs.github.com/spec/v1\noid sha256:00\n'), 'run `git lfs pull`'],
    ['a web page', text('<!DOCTYPE html><title>Model</title>'), 'is a web page'],
    ['an older format', text('tjgg....'), 'is in a format older than GGUF'],
    ['the first version', patched(4, 1), 'is GGUF version 1'],
    ['a later version', patched(4, 9), 'update Tollgate'],
    ['another byte order', patched(4, 0, 0, 0, 3), 'byte order'],
    ['a giant count of tensors', patched(8, ...HUGE), 'is damaged: its header claims'],
    ['a giant count of keys', patched(16, ...HUGE), 'is damaged: its header claims'],
    ['a giant key', patched(24, ...HUGE), 'is truncated in its header'],
    ['a value of no type', patched(24 + 8 + 'general.architecture'.length, 77), 'of unknown type 77'],
    ['one without weights', whole.subarray(0, whole.length - 64), 'is truncated: it has'],
    ['one of nothing', makeGguf({ values: {} }), 'its header names no architecture'],
  ])('%s', (_, bytes, sentence) => {
    expect(() => toFacts(readHeader(sourceOf(bytes)))).toThrow(sentence)
  })

  test("a list with a count beyond the file's end", () => {
    const bytes = makeGguf({ values: { ...CHAT, 'tokenizer.ggml.tokens': [] } })
    const at = bytes.indexOf('tokenizer.ggml.tokens'.charCodeAt(0), Buffer.from(bytes).indexOf('tokenizer.ggml.tokens'))
    const copy = Uint8Array.from(bytes)
    copy.set(HUGE, at + 'tokenizer.ggml.tokens'.length + 8)
    expect(() => readHeader(sourceOf(copy))).toThrow('is truncated in its header')
  })

  test('a file truncated at any byte', () => {
    for (let length = 0; length < whole.length - 32; length++)
      expect(() => toFacts(readHeader(sourceOf(whole.subarray(0, length))))).toThrow(
        /is (empty|truncated|not a GGUF file)/,
      )
  })

  test('a file with a random byte changed, unless it is still valid', () => {
    for (let at = 4; at < whole.length; at++)
      for (const byte of [0, 1, 9, 127, 255])
        try {
          toFacts(readHeader(sourceOf(patched(at, byte))))
        } catch (error) {
          expect(error).toHaveProperty('name', 'DamagedModel')
        }
  })
})
