/** Changes of the catalogue as lines for people: a row a line behind `+`, `~`, `-` or `=`, its fields beneath it. Pure. */
import type { Adoption, Change, Changes, Counts } from '../catalog/changes.ts'
import type { Left } from '../catalog/plan.ts'
import type { Difference } from '../domain/difference.ts'
import type { Origin } from '../domain/settings.ts'
import { count } from '../domain/words.ts'
import { toPrintable } from './io.ts'

const MARKS: Record<Change['action'], string> = { create: '+', update: '~', delete: '-' }

/** What is, or would be, written: made, changed field by field, deleted, or given to another owner. */
export function toChangeLines({ changes, adoptions }: Changes): string {
  const routes = Map.groupBy(
    changes.filter((one) => one.action !== 'update' && isRoute(one)),
    modelOf,
  )
  const lines = changes.map((change) => {
    if (change.action === 'update') return toLine(MARKS.update, change, ofOwner(change.origin)) + toFields(change)
    const own = routes.get(change.name)
    // Routes come and go with their model.
    if (isRoute(change) && isWhole(changes, change)) return ''
    const more = own === undefined ? '' : `, ${count(own.length, 'route')}`
    return toLine(MARKS[change.action], change, more + (change.action === 'delete' ? ofOwner(change.origin) : ''))
  })
  return lines.join('') + adoptions.map(toAdoptionLine).join('')
}

const isRoute = ({ name }: Change) => name.includes(': route ')
const modelOf = ({ name }: Change) => name.slice(0, name.indexOf(': route '))
const isWhole = (changes: Change[], route: Change) =>
  changes.some(({ name, action }) => action === route.action && name === modelOf(route))

const ofOwner = (origin: Origin) => ` (${origin})`

const toLine = (mark: string, { name }: { name: string }, more: string) => `${mark} ${toPrintable(name)}${more}\n`

const toAdoptionLine = ({ name, before, after }: Adoption) =>
  `~ ${toPrintable(name)} (${before}): as it is, and from now on the ${after}'s\n`

const REASONS: Record<Left['why'], (left: Left, applied: Origin) => string> = {
  stronger: ({ origin }, applied) => `${origin}, which wins over the ${applied}`,
  undeclared: ({ origin }) => `${origin}: no longer declared; --prune deletes it`,
  used: ({ origin, by = '' }) => `${origin}: no longer declared, and needed by ${toPrintable(by)}`,
}

/** What is left as it is though it differs from what is declared. */
export const toLeftLines = (left: readonly Left[], applied: Origin) =>
  left
    .map((one) => {
      const line = toLine('=', one, ` (${REASONS[one.why](one, applied)})`)
      return line + (one.why === 'stronger' ? toFields(one) : '')
    })
    .join('')

function toFields({ before, after }: Difference): string {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  return names.map((name) => `    ${name}: ${toText(before[name])} -> ${toText(after[name])}\n`).join('')
}

const toText = (value: unknown) =>
  value === undefined ? 'none' : toPrintable(typeof value === 'string' ? value : JSON.stringify(value))

/** Such as `1 created, 2 updated, 0 deleted, 40 unchanged`. */
export function toCountText({ created, updated, deleted, adopted, unchanged }: Counts): string {
  const owners = adopted === 0 ? '' : `${adopted} with another owner, `
  return `${created} created, ${updated} updated, ${deleted} deleted, ${owners}${unchanged} unchanged`
}
