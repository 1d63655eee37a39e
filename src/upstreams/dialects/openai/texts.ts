/**
 * Finds the words of a delta or a message: its content, its refusal and its reasoning, by whatever name and in whatever
 * parts they come. Pure.
 */
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'

export interface Texts {
  content: string
  reasoning: string
  refusal: string
}

export function toTexts(said: JsonObject): Texts {
  const texts: Texts = {
    content: asText(said.content),
    reasoning: asText(said.reasoning_content) || asText(said.reasoning) || toDetailsText(said.reasoning_details),
    refusal: asText(said.refusal),
  }
  if (typeof said.content === 'object') for (const part of toParts(said.content)) addPart(texts, part)
  return texts
}

const toParts = (value: unknown): unknown[] => (Array.isArray(value) ? value : value === null ? [] : [value])

function addPart(texts: Texts, value: unknown): void {
  const part = asObject(value)
  if (!part) texts.content += asText(value)
  else if (part.type === 'thinking' || part.type === 'reasoning') texts.reasoning += toThought(part)
  else if (part.type === 'refusal') texts.refusal += asText(part.refusal)
  else texts.content += asText(part.text)
}

/** A thought is a text, or a list of text parts of its own. */
function toThought(part: JsonObject): string {
  const thought = part.thinking ?? part.reasoning ?? part.text
  if (typeof thought === 'string') return thought
  return asList(thought)
    .map((each) => asText(each) || asText(asObject(each)?.text))
    .join('')
}

/** The text of `reasoning_details`, for clients that read only the strings. */
function toDetailsText(details: unknown): string {
  return asList(details)
    .map((each) => asText(asObject(each)?.text) || asText(asObject(each)?.summary))
    .join('')
}

/** The content of a delta or message that says nothing else, as nearly all do; null for any other. */
export function toPlainText(value: unknown): string | null {
  const said = asObject(value)
  if (!said) return null
  for (const key in said) if (key !== 'content' && key !== 'role' && said[key] != null) return null
  const { content } = said
  return typeof content === 'string' ? content : content == null ? '' : null
}
