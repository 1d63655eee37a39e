import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/domain/error.ts'
import { onlyPart, readForm, textOf, writeForm } from '../../src/domain/multipart.ts'

const TYPE = 'multipart/form-data; boundary=XX'
const part = (headers: string, content: string) => `--XX\r\n${headers}\r\n\r\n${content}\r\n`
const field = (name: string, content: string) => part(`Content-Disposition: form-data; name="${name}"`, content)
const FILE = part(
  'content-disposition: form-data; name="file"; filename="a \\"b\\" C:\\dir.wav"\r\nContent-Type: application/octet-stream',
  'RIFF\r\n--X\r\n\u0000',
)
const END = '--XX--\r\n'

const read = (text: string, type = TYPE) => readForm(Buffer.from(text), type)
function accept(text: string, type = TYPE) {
  const form = read(text, type)
  if (form instanceof GatewayError) throw form
  return form
}
function refusal(text: string, type = TYPE): string {
  const form = read(text, type)
  if (!(form instanceof GatewayError)) throw new Error('accepted')
  expect(form.status).toBe(400)
  return form.message
}

describe('a form', () => {
  test('is read as sent, wherever its model is', () => {
    for (const text of [field('model', 'm') + FILE + END, FILE + field('model', 'm') + END]) {
      const form = accept(text)
      const [model, file] = [onlyPart(form, 'model'), onlyPart(form, 'file')]
      if (!model || !file || model instanceof GatewayError || file instanceof GatewayError) throw new Error('missing')
      expect(textOf(form, model)).toBe('m')
      expect(textOf(form, file)).toBe('RIFF\r\n--X\r\n\u0000')
      expect(file).toMatchObject({ filename: 'a "b" C:\\dir.wav', type: 'application/octet-stream' })
    }
  })

  test('is rewritten unchanged except for replacements', () => {
    const text = `${field('include[]', 'logprobs')}${FILE}${field('include[]', '')}${field('model', 'mine')}${END}`
    const form = accept(text)
    expect(Buffer.concat(writeForm(form, {})).toString()).toBe(text)
    const edits = { values: new Map([['model', 'theirs/é']]), names: new Map([['include[]', 'include']]) }
    expect(Buffer.concat(writeForm(form, edits)).toString()).toBe(
      text.replace('mine', 'theirs/é').replaceAll('include[]', 'include'),
    )
    for (const name of ['include[]', 'file', 'model']) {
      const left = Buffer.concat(writeForm(form, { dropped: new Set([name]) }))
      const others = form.parts.filter((part) => part.name !== name).map((part) => [part.name, textOf(form, part)])
      const read = accept(left.toString())
      expect(read.parts.map((part) => [part.name, textOf(read, part)])).toEqual(others)
    }
  })

  test('may have a quoted boundary, an encoded file name, names in UTF-8, no type, and no last line break', () => {
    const type = `Multipart/Form-Data; charset=utf-8; boundary="XX"`
    const headers = `Content-Disposition: form-data; name="größe"; filename*=UTF-8''%e2%82%ac.wav`
    expect(accept(`\r\n${part(headers, '')}--XX--`, type).parts).toMatchObject([
      { name: 'größe', filename: '€.wav', type: null },
    ])
  })

  test('is rejected if receivers could read it differently', () => {
    const model = field('model', 'm')
    expect(refusal(model + END, 'multipart/form-data')).toContain('boundary')
    expect(refusal(model + END, `${TYPE}; boundary=YY`)).toContain('one boundary')
    expect(refusal(model + END, 'multipart/form-data; boundary=YY')).toContain(`doesn't begin with`)
    expect(refusal((model + END).replaceAll('\r\n', '\n'))).toContain('CRLF')
    expect(refusal(model)).toContain('incomplete')
    expect(refusal(model + FILE.slice(0, -8))).toContain('incomplete')
    expect(refusal('')).toContain(`doesn't begin with`)
    expect(refusal(`hidden${model}${END}`)).toContain(`doesn't begin with`)
    expect(refusal(`${model}${END}${model}${END}`)).toContain('after its last boundary')
    expect(refusal(model.replace('--XX', '--XX ') + END)).toContain('CRLF')
    expect(refusal(part('Content-Type: text/plain', 'm') + END)).toContain('Content-Disposition')
    for (const disposition of [
      'form-data',
      'form-data; name=""',
      'form-data; name="model"; name="x"',
      'form-data; name="mod\\"el"',
      `form-data; name*=UTF-8''model`,
      `form-data; name="file"; filename*=latin1''a`,
      'attachment; name="model"',
    ])
      expect(refusal(part(`Content-Disposition: ${disposition}`, 'm') + END)).toContain('Content-Disposition')
    const named = 'Content-Disposition: form-data; name="model"'
    expect(refusal(part(`${named}\r\n${named}`, 'm') + END)).toContain('more than one')
    expect(refusal(part(`${named}\r\n ; filename="a"`, 'm') + END)).toContain('malformed header')
    expect(refusal(part(`${named}\nX: y`, 'm') + END)).toContain('malformed header')
    expect(refusal(part(`${named}\r\nContent-Transfer-Encoding: base64`, 'bQ==') + END)).toContain('not supported')
  })

  test('is limited in parts and headers', () => {
    expect(refusal(field('a', '').repeat(1_001) + END)).toContain('1000 parts')
    expect(refusal(part(`X: ${'x'.repeat(9_000)}`, '') + END)).toContain('8 KiB')
    expect(refusal(part(`Content-Disposition: form-data; name="${'\\'.repeat(8_000)}`, '') + END)).toContain('name=')
  })

  test('has a unique part where required', () => {
    const form = accept(field('model', 'cheap') + field('model', 'dear') + END)
    expect(onlyPart(form, 'model')).toMatchObject({ status: 400, param: 'model' })
  })
})
