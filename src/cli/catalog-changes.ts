/**
 * Changes of the catalogue as lines for people: a row a line behind `+`, `~`, `-` or `=`, its fields beneath it. What is too long
 * for a line of a terminal goes on in the next, farther in. Pure.
 */
import type { Adoption, Change, Changes, Counts } from '../catalog/changes.ts'
import type { Left } from '../catalog/plan.ts'
import type { Difference } from '../domain/difference.ts'
import type { Origin } from '../domain/settings.ts'
import { count } from '../domain/words.ts'
import { toIndented, toPrintable, WIDTH } from './io.ts'
import type { Mark, Paint } from './terminal.ts'

const MARKS: Record<Change['action'], Mark> = { create: '+', update: '~', delete: '-' }

/** What is, or would be, written: made, changed field by field, deleted, or given to another owner. */
export function toChangeLines({ changes, adoptions }: Changes, paint: Paint): string {
  const routes = Map.groupBy(
    changes.filter((one) => one.action !== 'update' && isRoute(one)),
    modelOf,
  )
  const whole = new Set(changes.map(({ action, name }) => `${action} ${name}`))
  const lines = changes.map((change) => {
    const { action, name, origin } = change
    const mark = paint.mark(MARKS[action])
    if (action === 'update') return toLine(mark, change, ofOwner(origin)) + toFields(change, paint)
    // Routes come and go with their model.
    if (isRoute(change) && whole.has(`${action} ${modelOf(change)}`)) return ''
    const own = routes.get(name)
    const more = own === undefined ? '' : `, ${count(own.length, 'route')}`
    return toLine(mark, change, action === 'delete' ? more + ofOwner(origin) : more)
  })
  return lines.join('') + adoptions.map((one) => toAdoptionLine(one, paint)).join('')
}

const isRoute = ({ name }: Change) => name.includes(': route ')
const modelOf = ({ name }: Change) => name.slice(0, name.indexOf(': route '))
const ofOwner = (origin: Origin) => ` (${origin})`

const toLine = (mark: string, { name }: { name: string }, more: string) =>
  `${mark} ${toIndented(`${toPrintable(name)}${more}`, INDENT).trimStart()}`

const toAdoptionLine = ({ name, before, after }: Adoption, paint: Paint) =>
  toLine(paint.mark('~'), { name }, ` (${before}): as it is, and from now on the ${after}'s`)

const REASONS: Record<Left['why'], (left: Left, applied: Origin) => string> = {
  stronger: ({ origin }, applied) => `${origin}, which wins over the ${applied}`,
  undeclared: ({ origin }) => `${origin}: no longer declared; --prune deletes it`,
  used: ({ origin, by = '' }) => `${origin}: no longer declared, and needed by ${toPrintable(by)}`,
}

/** What is left as it is though it differs from what is declared. */
export const toLeftLines = (left: readonly Left[], applied: Origin, paint: Paint) =>
  left
    .map((one) => {
      const line = toLine(paint.mark('='), one, ` (${REASONS[one.why](one, applied)})`)
      return line + (one.why === 'stronger' ? toFields(one, paint) : '')
    })
    .join('')

/** Of the fields of a row. */
const INDENT = 4

function toFields({ before, after }: Difference, paint: Paint): string {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  const margin = ' '.repeat(INDENT)
  return names
    .map((name) => {
      const [was, is] = [toText(before[name]), toText(after[name])]
      const line = `${margin}${name}: ${was} -> ${is}`
      if (Bun.stringWidth(line) <= WIDTH) return `${line}\n`
      const below = (mark: Mark, text: string) =>
        `${margin}  ${paint.mark(mark)} ${toIndented(text, INDENT + 4).trimStart()}`
      return `${margin}${name}:\n${below('-', was)}${below('+', is)}`
    })
    .join('')
}

function toText(value: unknown): string {
  if (value === undefined) return 'none'
  return toPrintable(typeof value === 'string' ? value : toSpaced(value))
}

/** JSON on one line, with spaces at which it can be broken. */
const toSpaced = (value: unknown) =>
  JSON.stringify(value, null, 1)
    .replace(/(?<=[[{])\n *|\n *(?=[\]}])/g, '')
    .replace(/\n */g, ' ')

/** Such as `1 created, 2 updated, 0 deleted, 40 unchanged`. */
export function toCountText({ created, updated, deleted, adopted, unchanged }: Counts): string {
  const owners = adopted === 0 ? '' : `${adopted} with another owner, `
  return `${created} created, ${updated} updated, ${deleted} deleted, ${owners}${unchanged} unchanged`
}
