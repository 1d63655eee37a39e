/** Scripted embeddings: a distinct vector per input, in the requested encoding. */
import type { Script } from './upstream.ts'
import type { Whole } from './upstream-answers.ts'

/** Exact as 32-bit floats, one of them different for each input. */
export const vectorOf = (input: unknown, dimensions = 4): number[] =>
  Array.from({ length: dimensions }, (_, at) => (at === 0 ? hashOf(input) : at / 8))

const hashOf = (input: unknown) => (Bun.hash.xxHash32(JSON.stringify(input)) % 1024) / 1024 + 1

/** Little-endian 32-bit floats. */
export function toBase64(vector: readonly number[]): string {
  const bytes = Buffer.alloc(4 * vector.length)
  for (const [at, number] of vector.entries()) bytes.writeFloatLE(number, 4 * at)
  return bytes.toString('base64')
}

export function fromBase64(text: string): number[] {
  const bytes = Buffer.from(text, 'base64')
  return Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readFloatLE(4 * at))
}

export interface OpenAiEmbeddings {
  /** Encoding of the response, whatever was requested. */
  always?: 'float' | 'base64'
  tokensPerInput?: number
}

/** Like OpenAI's, with so many `prompt_tokens` per input. */
export const openAiEmbeddings =
  ({ always, tokensPerInput = 5 }: OpenAiEmbeddings = {}): Script =>
  ({ json }) => {
    const inputs = json?.input as unknown[]
    const prompt_tokens = tokensPerInput * inputs.length
    const isBase64 = (always ?? json?.encoding_format) === 'base64'
    const dimensions = (json?.dimensions as number | undefined) ?? 4
    const data = inputs.map((input, index) => {
      const vector = vectorOf(input, dimensions)
      return { object: 'embedding', index, embedding: isBase64 ? toBase64(vector) : vector }
    })
    return toWhole({ object: 'list', model: json?.model, data, usage: { prompt_tokens, total_tokens: prompt_tokens } })
  }

/** Like those of Google AI Studio, or of Vertex below `/publishers/`. */
export const geminiEmbeddings: Script = ({ path, json }) => {
  if (path.endsWith(':predict')) {
    const { instances, parameters } = json as {
      instances: { content: string }[]
      parameters: { outputDimensionality?: number }
    }
    const predictions = instances.map(({ content }) => ({
      embeddings: {
        values: vectorOf(content, parameters.outputDimensionality),
        statistics: { token_count: 7, truncated: false },
      },
    }))
    return toWhole({ predictions })
  }
  const { requests } = json as {
    requests: { content: { parts: { text: string }[] }; outputDimensionality?: number }[]
  }
  const embeddings = requests.map(({ content, outputDimensionality }) => ({
    values: vectorOf(content.parts[0]?.text, outputDimensionality),
  }))
  return toWhole({ embeddings })
}

const toWhole = (body: unknown): Whole => ({ kind: 'whole', body })
