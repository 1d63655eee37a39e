/** Requests other than chats: each endpoint's form fields and result view. */
import type { ComponentChildren } from 'preact'
import { asObject, type JsonObject } from '../../domain/json.ts'
import type { OtherEndpoint } from '../../domain/task.ts'
import { Refusal } from '../api/refusal.ts'
import { toCount } from '../figures/figures.ts'
import { ButtonLink, CopyButton } from '../ui/controls.tsx'
import { type files, type Typed, typed } from './made.ts'
import { createEventReader } from './stream.ts'

export interface KindField {
  /** The API's name. */
  name: string
  label: string
  /** Placeholder. */
  placeholder?: string
  hint?: string
  isRequired?: true
  /** Number of lines; makes it a text area. */
  lines?: number
  suggestions?: readonly string[]
  /** Initial value. */
  value?: string
  /** Converts the text; default: unchanged. @throws a Refusal that names the field */
  read?(text: string, name: string): unknown
}

interface Kind {
  /** Label of the button. */
  action: string
  /** With a file, the request is a multipart form. */
  file?: { name: keyof typeof files; label: string; accept: string }
  fields: readonly KindField[]
  /** Fields sent only by this page, not in code. */
  also?: JsonObject
  /** Shows the result; default: as JSON. */
  read?(response: Response, typed: Typed): Promise<JsonObject>
  Shown(props: { of: JsonObject; typed: Typed }): ComponentChildren
}

const MODEL_DEFAULT = 'model default'

function toNumber(text: string, name: string): number {
  const number = Number(text.trim().replace(',', '.'))
  if (Number.isFinite(number)) return number
  throw new Refusal('Enter a number.', 'invalid', name)
}

const toLines = (text: string) => text.split('\n').filter((line) => line.trim() !== '')

const AUDIO_FILE: Kind['file'] = {
  ...{ name: 'file', label: 'Audio file' },
  accept: 'audio/*,video/mp4,video/webm,.mp3,.m4a,.wav,.ogg,.opus,.flac,.webm,.mp4',
}
const PROMPT = { name: 'prompt', label: 'Prompt', placeholder: 'none', hint: 'Names and words that the audio has.' }

const PICTURES: Omit<Kind, 'action'> = {
  fields: [
    { name: 'prompt', label: 'Prompt', isRequired: true, lines: 3 },
    { name: 'n', label: 'Count', value: '1', read: toNumber },
    {
      ...{ name: 'size', label: 'Size', placeholder: MODEL_DEFAULT },
      suggestions: ['1024x1024', '1536x1024', '1024x1536'],
    },
    {
      ...{ name: 'quality', label: 'Quality', placeholder: MODEL_DEFAULT },
      suggestions: ['low', 'medium', 'high', 'standard', 'hd'],
    },
  ],
  // This page may not load images of other sites.
  also: { response_format: 'b64_json' },
  Shown: ({ of, typed: { prompt = '' } }) => (
    <ul class="made-images">
      {listOf(of.data).map(({ b64_json: data, url, revised_prompt: revised }, at) => (
        <li key={at}>
          {typeof data === 'string' ? (
            <a href={toImageUrl(data)} download={`image-${at + 1}`} title="Download">
              <img src={toImageUrl(data)} alt={String(revised ?? prompt)} />
            </a>
          ) : (
            <a href={String(url)} target="_blank" rel="noreferrer">
              Open image {at + 1} at the provider
            </a>
          )}
        </li>
      ))}
    </ul>
  ),
}

export const KINDS: Readonly<Record<OtherEndpoint, Kind>> = {
  speech: {
    ...{ action: 'Speak' },
    fields: [
      { name: 'input', label: 'Text', isRequired: true, lines: 4 },
      {
        ...{ name: 'voice', label: 'Voice', value: 'alloy', hint: 'A name that the provider knows.' },
        suggestions: ['alloy', 'ash', 'coral', 'echo', 'fable', 'nova', 'onyx', 'sage', 'shimmer'],
      },
      { name: 'instructions', label: 'Instructions', placeholder: 'none', hint: 'How to speak, for models that can.' },
      {
        ...{ name: 'response_format', label: 'Format', placeholder: 'mp3' },
        suggestions: ['mp3', 'wav', 'opus', 'aac', 'flac'],
      },
      { name: 'speed', label: 'Speed', placeholder: '1', read: toNumber },
    ],
    // A response of only bytes lacks the cost.
    also: { stream_format: 'sse' },
    read: readSpeech,
    Shown: ({ of, typed }) => {
      const name = `speech.${typed.response_format || 'mp3'}`
      return (
        <>
          {/* biome-ignore lint/a11y/useMediaCaption: its text is above */}
          <audio controls src={String(of.url)} aria-label="Speech" />
          <ButtonLink icon="down" href={String(of.url)} download={name}>
            Download
          </ButtonLink>
        </>
      )
    },
  },
  transcriptions: {
    ...{ action: 'Transcribe', file: AUDIO_FILE },
    fields: [{ name: 'language', label: 'Language', placeholder: 'detected', hint: 'Such as en.' }, PROMPT],
    Shown: Transcript,
  },
  translations: {
    ...{ action: 'Translate', file: AUDIO_FILE, fields: [PROMPT] },
    Shown: Transcript,
  },
  images: { ...PICTURES, action: 'Generate' },
  image_edits: {
    ...PICTURES,
    ...{ action: 'Edit' },
    file: { name: 'image', label: 'Image', accept: 'image/png,image/jpeg,image/webp' },
  },
  rerank: {
    ...{ action: 'Rank' },
    fields: [
      { name: 'query', label: 'Query', isRequired: true },
      { name: 'documents', label: 'Documents', isRequired: true, lines: 6, hint: 'One per line.', read: toLines },
      { name: 'top_n', label: 'Results', placeholder: 'all', read: toNumber },
    ],
    Shown: ({ of, typed: { documents = '' } }) => (
      <ol class="ranked">
        {listOf(of.results).map(({ index, relevance_score: score }) => (
          <li key={String(index)}>
            <Score of={score} /> <span>{toLines(documents)[Number(index)]}</span>
          </li>
        ))}
      </ol>
    ),
  },
  moderations: {
    ...{ action: 'Classify' },
    fields: [{ name: 'input', label: 'Text', isRequired: true, lines: 4 }],
    Shown: ({ of }) => {
      const [{ flagged, categories, category_scores: scores } = {}] = listOf(of.results)
      const found = Object.entries(asObject(scores) ?? {}).sort(([, a], [, b]) => Number(b) - Number(a))
      return (
        <>
          <p>
            <strong>{flagged ? 'Flagged' : 'Not flagged'}</strong>
          </p>
          <ol class="ranked">
            {found.map(([name, score]) => (
              <li key={name}>
                <Score of={score} /> <span>{name}</span>{' '}
                {asObject(categories)?.[name] === true && <strong>applies</strong>}
              </li>
            ))}
          </ol>
        </>
      )
    },
  },
  embeddings: {
    ...{ action: 'Embed' },
    fields: [
      {
        name: 'input',
        label: 'Texts',
        isRequired: true,
        lines: 4,
        hint: 'One per line. All are compared with the first.',
        read: toLines,
      },
      { name: 'dimensions', label: 'Dimensions', placeholder: MODEL_DEFAULT, read: toNumber },
    ],
    Shown: ({ of, typed: { input = '' } }) => {
      const vectors = listOf(of.data).map(({ embedding }) => (Array.isArray(embedding) ? embedding.map(Number) : []))
      const [first = []] = vectors
      return (
        <>
          <p>Vectors of {toCount(first.length)} numbers. Cosine similarity to the first:</p>
          <ol class="ranked">
            {toLines(input).map((text, at) => (
              <li key={at}>
                <Score of={toSimilarity(first, vectors[at] ?? [])} /> <span>{text}</span>
              </li>
            ))}
          </ol>
        </>
      )
    },
  },
}

const Score = ({ of: score }: { of: unknown }) => <code>{Number(score).toFixed(3)}</code>

function Transcript({ of: { text } }: { of: JsonObject }) {
  if (typeof text !== 'string' || text.trim() === '') return <p class="dim">No speech found.</p>
  return (
    <>
      <p class="turn-text">{text}</p>
      <CopyButton text={text} what="the text" />
    </>
  )
}

const listOf = (value: unknown): JsonObject[] => (Array.isArray(value) ? value.map((item) => asObject(item) ?? {}) : [])

function toSimilarity(one: readonly number[], other: readonly number[]): number {
  const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, each, at) => sum + each * (b[at] ?? 0), 0)
  return dot(one, other) / Math.sqrt(dot(one, one) * dot(other, other))
}

/** Media types by the first bytes of each format. */
const IMAGE_TYPES: readonly (readonly [start: string, type: string])[] = [
  ['/9j/', 'jpeg'],
  ['UklGR', 'webp'],
  ['R0lGOD', 'gif'],
]

const toImageUrl = (base64: string) =>
  `data:image/${IMAGE_TYPES.find(([start]) => base64.startsWith(start))?.[1] ?? 'png'};base64,${base64}`

const AUDIO_TYPES: Readonly<Record<string, string>> = { mp3: 'mpeg', opus: 'ogg' }

/** Joins the audio of events into one file. @throws Refusal */
async function readSpeech(response: Response, { response_format: format }: Typed): Promise<JsonObject> {
  const type = `audio/${AUDIO_TYPES[format ?? ''] ?? (format || 'mpeg')}`
  const pieces: Uint8Array<ArrayBuffer>[] = []
  const toEvents = createEventReader()
  for (const data of toEvents(await response.text())) {
    const event = asObject(JSON.parse(data)) ?? {}
    const { message } = asObject(event.error) ?? {}
    if (typeof message === 'string') throw new Refusal(message, 'failed')
    if (typeof event.audio === 'string') pieces.push(Uint8Array.from(atob(event.audio), (byte) => byte.charCodeAt(0)))
    if (event.type === 'speech.audio.done')
      return { usage: event.usage, url: URL.createObjectURL(new Blob(pieces, { type })) }
  }
  throw new Refusal('The connection closed early.', 'failed')
}

/** @throws a Refusal that names the field */
export function toFields(endpoint: OtherEndpoint, typed: Typed): JsonObject {
  const { fields } = KINDS[endpoint]
  const sent: JsonObject = {}
  for (const { name, label, isRequired, read = String } of fields) {
    const text = typed[name] ?? ''
    if (text.trim() !== '') sent[name] = read(text, name)
    else if (isRequired) throw new Refusal(`${label}: enter something.`, 'invalid', name)
  }
  return sent
}

export const typedOf = (endpoint: OtherEndpoint): Typed =>
  typed.value[endpoint] ?? Object.fromEntries(KINDS[endpoint].fields.map(({ name, value = '' }) => [name, value]))
