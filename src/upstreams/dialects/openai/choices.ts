/** The choices of a whole answer in order, whatever indexes its upstream gave them. Pure. */
import { asList, asObject, type JsonObject } from '../../../domain/json.ts'

/** Sorts by index, or by place where there is none; the place in what is returned is the index that counts. */
export function toChoices(choices: unknown): JsonObject[] {
  return asList(choices)
    .map(asObject)
    .filter((choice) => choice !== null)
    .map((choice, place) => ({ choice, at: toIndex(choice.index, place) }))
    .sort((a, b) => a.at - b.at)
    .map(({ choice }) => choice)
}

/** Reads a choice's index; its place where it is none. */
export function toIndex(value: unknown, place: number): number {
  return Number.isInteger(value) && (value as number) >= 0 ? (value as number) : place
}
