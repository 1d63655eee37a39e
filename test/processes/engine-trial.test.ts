/** The small model that engines are tried with is one, to our own reader. */
import { expect, test } from 'bun:test'
import { makeTinyModel } from '../../src/processes/engine-trial.ts'
import { readHeader } from '../../src/processes/gguf.ts'
import { toFacts } from '../../src/processes/model-file.ts'

test('the small model is a whole one', () => {
  const bytes = makeTinyModel()
  const read = (offset: number, length: number) => bytes.subarray(offset, offset + length)
  const header = readHeader({ size: bytes.length, read })
  expect(header.tensors).toBe(11)
  expect(toFacts(header)).toMatchObject({ architecture: 'llama', kind: 'chat', vocabulary: 258, hasTokenizer: true })
})
