/** A form in a file is parsed like one in memory, whatever the size of its contents and wherever reads end. */
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readStoredForm } from '../../src/batches/upload.ts'
import { GatewayError } from '../../src/domain/error.ts'
import { readForm } from '../../src/domain/multipart.ts'

const CHUNK = 256 * 1024
const SIZES = [0, 1, 64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, CHUNK, 3 * CHUNK + 7]

async function compare(bytes: Uint8Array, type: string) {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-upload-'))
  try {
    const path = join(folder, 'form')
    await Bun.write(path, bytes)
    const [stored, whole] = [await readStoredForm(path, type), readForm(bytes, type)]
    if (stored instanceof GatewayError || whole instanceof GatewayError) {
      expect(stored).toEqual(whole as GatewayError)
      return null
    }
    const { form, toOffset } = stored
    const found = form.parts.map(({ name, start, end }) => [name, toOffset(start), toOffset(end)])
    expect(found).toEqual(whole.parts.map(({ name, start, end }) => [name, start, end]))
    return form.bytes.length
  } finally {
    rmSync(folder, { recursive: true })
  }
}

test.each(SIZES)('contents of %d bytes, before and after other parts', async (size) => {
  const content = new Uint8Array(size).map((_, at) => at % 251)
  const made = new FormData()
  made.append('purpose', 'batch')
  made.append('file', new File([content], 'a.jsonl'))
  made.append('other', new File([content, content], 'b'))
  made.append('last', 'text')
  const response = new Response(made)
  const type = response.headers.get('content-type') ?? ''
  const kept = await compare(new Uint8Array(await response.arrayBuffer()), type)
  expect(kept).toBeLessThan(200 * 1024)
})

test.each(Array.from({ length: 40 }, (_, at) => at))(
  'a boundary at the end of a read, %d bytes before',
  async (before) => {
    const head = '--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n'
    const content = 'x'.repeat(2 * CHUNK - head.length - before)
    await compare(
      Buffer.from(`${head}${content}\r\n--b\r\ncontent-disposition: form-data; name="n"\r\n\r\n1\r\n--b--`),
      'multipart/form-data; boundary=b',
    )
  },
)

test.each([
  ['cut off', '--b\r\ncontent-disposition: form-data; name="a"\r\n\r\ntext'],
  ['with bare line breaks', '--b\ncontent-disposition: form-data; name="a"\n\ntext\n--b--'],
  ['with more at its end', '--b\r\ncontent-disposition: form-data; name="a"\r\n\r\ntext\r\n--b--more'],
  ['empty', ''],
])('a form %s is rejected as in memory', async (_, text) => {
  expect(await compare(Buffer.from(text), 'multipart/form-data; boundary=b')).toBeNull()
})
