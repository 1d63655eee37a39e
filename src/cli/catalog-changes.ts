/**
 * Changes of the catalog as lines for people: a row a line behind `+`, `~`, `-` or `=`, its fields beneath it, and the question whether
 * to make them. What is too long for a line of a terminal goes on in the next, farther in.
 */
import type { Applied } from '../catalog/apply.ts'
import type { Change, Changes, Counts, Overridden } from '../catalog/change.ts'
import type { Difference } from '../domain/changes.ts'
import type { Origin } from '../domain/models.ts'
import { count } from '../domain/text.ts'
import { CommandError, usageError } from './command-error.ts'
import { type Context, toIndented, toPrintable, WIDTH } from './io.ts'
import type { ChangeMark, Paint } from './terminal.ts'

const MARKS: Record<Change['action'], ChangeMark> = { create: '+', update: '~', delete: '-' }

/** What is, or would be, made, changed field by field, or deleted. */
export function toWriteLines({ changes }: Pick<Changes, 'changes'>, paint: Paint): string {
  const routes = Map.groupBy(
    changes.filter(({ action, name }) => action !== 'update' && isRoute(name)),
    ({ name }) => modelOf(name),
  )
  const whole = new Set(changes.map(({ action, name }) => `${action} ${name}`))
  const lines = changes.map((change) => {
    const { action, name, origin } = change
    const mark = paint.mark(MARKS[action])
    if (action === 'update') return toLine(mark, change, ofOwner(origin)) + toFields(change, paint)
    // Routes come and go with their model.
    if (isRoute(name) && whole.has(`${action} ${modelOf(name)}`)) return ''
    const own = routes.get(name)
    const more = own === undefined ? '' : `, ${count(own.length, 'route')}`
    return toLine(mark, change, action === 'delete' ? more + ofOwner(origin) : more)
  })
  return lines.join('')
}

const isRoute = (name: string) => name.includes(': route ')
const modelOf = (name: string) => name.slice(0, name.indexOf(': route '))
const ofOwner = (origin: Origin) => ` (${origin})`

const toLine = (mark: string, { name }: { name: string }, more: string) =>
  `${mark} ${toIndented(`${toPrintable(name)}${more}`, INDENT).trimStart()}`

/** What a stronger layer says otherwise. */
export const toOverriddenLines = (overridden: readonly Overridden[], applied: Origin, paint: Paint): string =>
  overridden
    .map((one) => {
      const whose = one.origin === 'admin' ? 'set by hand' : one.origin
      return toLine(paint.mark('='), one, ` (${whose}, which wins over the ${applied})`) + toFields(one, paint)
    })
    .join('')

/** What a catalog does not change, though it differs: what counts otherwise, and what it no longer declares. */
export function toStayingLines({ overridden, kept }: Applied, applied: Origin, paint: Paint): string {
  const routes = Map.groupBy(kept.filter(isRoute), modelOf)
  const lines = kept.map((name) => {
    // As where they are made and deleted: the routes of a model are told of with it.
    if (isRoute(name) && kept.includes(modelOf(name))) return ''
    const own = routes.get(name)
    const more = own === undefined ? '' : `, ${count(own.length, 'route')}`
    return toLine(paint.mark('='), { name }, `${more} (${applied}: no longer declared; --prune deletes it)`)
  })
  return toOverriddenLines(overridden, applied, paint) + lines.join('')
}

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
      const below = (mark: ChangeMark, text: string) =>
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

/** Such as `1 row created, 2 updated, 0 deleted, 40 unchanged`. A route is a row of its own. */
export const toCountText = ({ created, updated, deleted, unchanged }: Counts): string =>
  `${count(created, 'row')} created, ${updated} updated, ${deleted} deleted, ${unchanged} unchanged`

export interface DecideFlags {
  plan?: boolean
  yes?: boolean
}

/** Refuses words that ask for both, or leave a script waiting. */
export function requireDecided({ yes, plan }: DecideFlags, io: Context): void {
  if (yes && plan) throw usageError('--plan changes nothing, and --yes does: say one of them.')
  if (io.json && !yes && !plan) throw usageError('--json asks nothing: say --yes, or --plan.')
}

/** @param question such as `Add this?`. Throws `not_decided` where the answer is no, or nobody answers. */
export async function requireYes(question: string, io: Context): Promise<void> {
  const answer = await io.ask(`${question} [Y/n] `, false)
  if (answer === null)
    throw new CommandError('not_decided', 'Nothing is changed yet: say --yes, or run this at a terminal, which asks.')
  if (!/^(y|yes)?$/i.test(answer.trim())) throw new CommandError('not_decided', 'Nothing was changed.')
}
