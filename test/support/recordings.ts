/** Recorded provider traffic, if it is next to the repository, and request comparison. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isObject, type Json } from './contract-parts.ts'

const FOLDER = join(import.meta.dir, '../../../shared/data/transcripts')

export const hasRecordings = existsSync(FOLDER)

export const readRecording = (file: string): string => readFileSync(join(FOLDER, file), 'utf8')

/** Recordings of real traffic, by provider folder. */
export const listRecorded = (): string[] =>
  JSON.parse(readRecording('MANIFEST.json')).flatMap(({ file, kind }: { file: string; kind: string }) =>
    kind === 'recorded' ? file : [],
  )

/** Restores missing framing, and OpenAI's end marker. */
export function toStreamBytes(file: string): Buffer {
  const text = readRecording(file)
  if (!file.endsWith('.jsonl')) return Buffer.from(text)
  const frames = text.split('\n').flatMap((line) => (line === '' ? [] : `data: ${line}\n\n`))
  return Buffer.from(`${frames.join('')}data: [DONE]\n\n`)
}

/** Paths that only one value has, or whose values differ. */
export function* differ(one: Json | undefined, other: Json | undefined, at = ''): Generator<string> {
  if (Bun.deepEquals(one, other)) return
  const isBoth = (isObject(one ?? null) && isObject(other ?? null)) || (Array.isArray(one) && Array.isArray(other))
  if (!isBoth) {
    yield at
    return
  }
  const [left, right] = [one as object, other as object]
  for (const name of new Set([...Object.keys(left), ...Object.keys(right)])) {
    const path = at === '' ? name : `${at}.${name}`
    yield* differ(Reflect.get(left, name), Reflect.get(right, name), path)
  }
}
