/**
 * Puts the arguments of a call together that come in pieces, each with the place of a value: `$.city`, `$.stops[0].name`.
 * Vertex sends them where that is switched on, which nobody does here; a model may be set so all the same. Pure.
 */
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'

type Holder = Record<string, unknown>

/** A name or a place in a list. */
const STEP = /\.([^.[\]]+)|\[(\d{1,6})\]|\['([^']*)'\]/g
const MAX_STEPS = 64

export class PartialArgs {
  readonly #root: Holder = {}

  /** Takes the items of one `partialArgs`; what has no place is left out. */
  take(list: unknown): void {
    for (const each of asList(list)) {
      const item = asObject(each)
      const steps = item ? toSteps(asText(item.jsonPath)) : []
      if (item && steps.length > 0) put(this.#root, steps, item)
    }
  }

  toJson(): string {
    return JSON.stringify(this.#root)
  }
}

function toSteps(path: string): (string | number)[] {
  const steps = [...path.matchAll(STEP)].map(([, name, place, quoted]) =>
    place === undefined ? (name ?? quoted ?? '') : Number(place),
  )
  return steps.length <= MAX_STEPS ? steps : []
}

function put(root: Holder, steps: (string | number)[], item: JsonObject): void {
  let holder: Holder = root
  for (const [at, step] of steps.entries()) {
    // A place far beyond the end of a list is none.
    if (typeof step === 'number' && step > (Array.isArray(holder) ? holder.length : 0)) return
    const held = Object.hasOwn(holder, step) ? holder[step] : undefined
    if (at === steps.length - 1) {
      set(holder, step, toValue(item, held))
      return
    }
    const next = typeof held === 'object' && held !== null ? held : typeof steps[at + 1] === 'number' ? [] : {}
    if (next !== held) set(holder, step, next)
    holder = next as Holder
  }
}

/** A name such as `__proto__` is one like any other. */
const set = (holder: Holder, step: string | number, value: unknown) =>
  Object.defineProperty(holder, step, { value, enumerable: true, configurable: true, writable: true })

/** A text goes on where it stopped. */
function toValue({ stringValue, numberValue, boolValue }: JsonObject, held: unknown): unknown {
  if (typeof stringValue === 'string') return asText(held) + stringValue
  if (typeof numberValue === 'number') return numberValue
  return typeof boolValue === 'boolean' ? boolValue : null
}
