/** The small model that engines are tried with is one, to our own reader. */
import { expect, test } from 'bun:test'
import { makeTinyModel } from '../../src/engines/tiny-model.ts'
import { toFacts } from '../../src/gguf/facts.ts'
import { readHeader } from '../../src/gguf/header.ts'

test('the small model is a whole one', () => {
  const bytes = makeTinyModel()
  const read = (offset: number, length: number) => bytes.subarray(offset, offset + length)
  const header = readHeader({ size: bytes.length, read })
  expect(header.tensors).toBe(11)
  expect(toFacts(header)).toMatchObject({ architecture: 'llama', kind: 'chat', vocabulary: 258, hasTokenizer: true })
})
