/** The files of a model, from a path to one, to a part of it, or to a folder; and its estimated memory. */
import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chooseContext, estimateMemory, findModelFiles } from '../../src/processes/model-file.ts'
import { CHAT, makeGguf, PROJECTOR } from '../support/gguf.ts'
import { createTestFolder, forEachTest } from '../support/lifetime.ts'

const folder = forEachTest(createTestFolder)

const write = (name: string, values = CHAT) => {
  const path = join(folder.path, name)
  const bytes = makeGguf({ values })
  writeFileSync(path, bytes)
  return { path, bytes: bytes.length }
}
const part = (index: number, count = 2) => ({ ...(index === 0 ? CHAT : {}), 'split.no': index, 'split.count': count })

test('a file is only itself, even next to others', () => {
  const { path, bytes } = write('a.gguf')
  write('b.gguf')
  write('mmproj-a.gguf', PROJECTOR)
  expect(findModelFiles(path, null)).toMatchObject({
    ...{ path, parts: 1, bytes, projector: null },
    otherProjectors: ['mmproj-a.gguf'],
  })
})

test('a folder is its model, with its projector', () => {
  const model = write('a.gguf')
  const projector = write('mmproj-a-f16.gguf', PROJECTOR)
  expect(findModelFiles(folder.path, null)).toMatchObject({
    path: model.path,
    bytes: model.bytes + projector.bytes,
    projector: { path: projector.path, reads: { image: true, audio: false } },
  })
})

test('any part of a model, or their folder, is all of it', () => {
  const [first, second] = [write('m-00001-of-00002.gguf', part(0)), write('m-00002-of-00002.gguf', part(1))]
  for (const path of [first.path, second.path, folder.path])
    expect(findModelFiles(path, null)).toMatchObject({ path: first.path, parts: 2, bytes: first.bytes + second.bytes })
})

test('a missing or incomplete model is an error', () => {
  const why = (path: string, projector: string | null = null) => {
    try {
      return findModelFiles(join(folder.path, path), projector).path
    } catch (error) {
      return String(error)
    }
  }
  expect(why('')).toContain('it has no .gguf files')
  expect(why('none.gguf')).toContain('File not found: ')
  write('m-00001-of-00003.gguf', part(0, 3))
  write('m-00003-of-00003.gguf', part(2, 3))
  expect(why('m-00001-of-00003.gguf')).toContain('has 3 parts, but m-00002-of-00003.gguf is missing')
  write('renamed.gguf', part(0, 3))
  expect(why('renamed.gguf')).toContain('is one of 3 parts. Rename them to MODEL-00001-of-00003.gguf and so on')
  expect(why('')).toContain(' has 2 models. Name one: m-00001-of-00003.gguf, renamed.gguf.')
  write('mmproj.gguf', PROJECTOR)
  expect(why('mmproj.gguf')).toContain('is a projector for another model')
  const whole = write('whole.gguf').path
  expect(why('whole.gguf', whole)).toContain('is a model, not a projector')
  write('bare.gguf', { 'general.architecture': 'llama' })
  expect(why('bare.gguf')).toContain('has no tokenizer')
  write('rank.gguf', { ...CHAT, 'llama.pooling_type': 4 })
  expect(why('rank.gguf')).toContain('is a reranker')
  writeFileSync(join(folder.path, 'lfs.gguf'), 'version https://git-lfs.github.com/spec/v1\n')
  expect(why('../../../../../../../../dev/null')).toContain('is not a regular file')
  expect(why('lfs.gguf')).toContain(
    'lfs.gguf is a Git LFS pointer, not the model; run `git lfs pull` in its repository.',
  )
})

test('memory is estimated from files, context and slots, and the context from memory', () => {
  const { path, bytes } = write('a.gguf', { ...CHAT, 'llama.context_length': 100_000 })
  const { facts } = findModelFiles(path, null)
  const estimate = estimateMemory(facts, { fileBytes: bytes, context: 4_096, slots: 2 })
  expect(estimate).toMatchObject({ weights: bytes, cache: 128 * 2 * 4_096 * 2 })
  expect(estimate.total).toBe(estimate.weights + estimate.cache + estimate.compute)
  const choose = (most: number) => chooseContext(facts, { fileBytes: bytes, slots: 2, most })
  expect([choose(2 ** 40), choose(estimate.total), choose(0)]).toEqual([32_768, 4_096, 4_096])
  const small = { ...facts, contextLength: 2_048 }
  expect(chooseContext(small, { fileBytes: bytes, slots: 1, most: 2 ** 40 })).toBe(2_048)
})
