/** What of an answer is not as a schema says. */
import type { TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'

/** The first few, in words; none where it is. */
export const toProblems = (schema: TSchema, answer: unknown): string[] =>
  [...Value.Errors(schema, answer)].slice(0, 3).map(({ path, message }) => `${path}: ${message}`)
