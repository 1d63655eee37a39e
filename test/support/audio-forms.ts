/** Forms with audio, byte for byte as clients send them, and fields that upstreams read from them. */
import { readFileSync } from 'node:fs'
import { GatewayError } from '../../src/domain/error.ts'
import { onlyPart, readForm, textOf } from '../../src/domain/multipart.ts'

export const loadAudio = (name: string) => readFileSync(new URL(`../fixtures/audio/${name}`, import.meta.url))

/** Silence, 16-bit mono. */
export function toWav(ms: number, rate = 16_000): Buffer {
  const data = (ms * rate * 2) / 1_000
  const head = Buffer.alloc(44)
  head.write('RIFF\0\0\0\0WAVEfmt ', 'latin1')
  head.writeUInt32LE(16, 16)
  for (const [at, value] of [
    [20, 1],
    [22, 1],
    [32, 2],
    [34, 16],
  ] as const)
    head.writeUInt16LE(value, at)
  for (const [at, value] of [
    [24, rate],
    [28, rate * 2],
    [40, data],
  ] as const)
    head.writeUInt32LE(value, at)
  head.write('data', 36, 'latin1')
  return Buffer.concat([head, Buffer.alloc(data)])
}

export type Field = readonly [name: string, content: string | Buffer, more?: string]

export const FORM_TYPE = 'multipart/form-data; boundary=----tollgate'

/** A file is a field of bytes; `more` are parameters and headers after its name. */
export const toForm = (fields: readonly Field[]): Buffer<ArrayBuffer> =>
  Buffer.concat([
    ...fields.flatMap(
      ([
        name,
        content,
        more = typeof content === 'string' ? '' : '; filename="audio.wav"\r\nContent-Type: audio/wav',
      ]) => [
        Buffer.from(`------tollgate\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n`),
        typeof content === 'string' ? Buffer.from(content) : content,
        Buffer.from('\r\n'),
      ],
    ),
    Buffer.from('------tollgate--\r\n'),
  ])

/** As a strict upstream reads it; throws if it is malformed. */
export function fromForm(bytes: Uint8Array, contentType: string): Record<string, string[]> {
  const form = readForm(bytes, contentType)
  if (form instanceof GatewayError) throw form
  const read: Record<string, string[]> = {}
  for (const part of form.parts) read[part.name] = [...(read[part.name] ?? []), textOf(form, part)]
  const file = onlyPart(form, 'file')
  if (!file || file instanceof GatewayError || file.filename === null) throw new Error('no file')
  return read
}
