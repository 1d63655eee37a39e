/**
 * The arguments of a call that an earlier answer made, for who reads them as JSON: a model may have written, and a client may send
 * back, what is none. Pure.
 */
import { asObject } from '../../domain/json.ts'

/** Arguments as an object. What is none still says something. */
export function toArguments(text: string): Record<string, unknown> {
  if (text.trim() === '') return {}
  try {
    const value: unknown = JSON.parse(text)
    return asObject(value) ?? { value }
  } catch {
    return { value: text }
  }
}

/** The same text where it is that of an object, else that of what it becomes. */
export function toArgumentsText(text: string): string {
  try {
    if (asObject(JSON.parse(text))) return text
  } catch {}
  return JSON.stringify(toArguments(text))
}
