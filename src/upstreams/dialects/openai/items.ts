/**
 * Numbers what comes as a list beside the text, `reasoning_details` and `annotations`: clients join the pieces of a stream
 * by an integer `index`, and some stop at an item without one (contract, section 7). Pure.
 */
import { asList, asObject } from '../../../domain/json.ts'

/** Numbers annotations: each is one of its own. */
export function createAnnotations(): (list: unknown) => object[] {
  let next = 0
  return (list) =>
    asList(list).flatMap((each) => {
      const item = asObject(each)
      if (!item) return []
      const index = Number.isInteger(item.index) ? (item.index as number) : next
      next = Math.max(next, index + 1)
      return { ...item, index }
    })
}

/** Numbers details: one without an index goes on where the last of its type was. */
export function createDetails(): (list: unknown) => object[] {
  const byType = new Map<unknown, number>()
  let next = 0
  return (list) =>
    asList(list).flatMap((each) => {
      const item = asObject(each)
      if (!item) return []
      const index = Number.isInteger(item.index) ? (item.index as number) : (byType.get(item.type) ?? next)
      byType.set(item.type, index)
      next = Math.max(next, index + 1)
      return { ...item, index }
    })
}
