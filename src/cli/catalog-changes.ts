/**
 * Text output of catalog changes: one line per row, marked `+`, `~`, `-`, or `=`, its fields below; and the
 * confirmation.
 */
import type { Applied } from '../catalog/apply.ts'
import type { Change, Changes, Counts, Overridden } from '../catalog/change.ts'
import type { Difference } from '../domain/changes.ts'
import { toEffectText } from '../domain/effects.ts'
import type { Origin } from '../domain/models.ts'
import { count } from '../domain/text.ts'
import { CommandError, usageError } from './command-error.ts'
import { type Context, toIndented, toPrintable, WIDTH } from './io.ts'
import type { ChangeMark, Paint } from './terminal.ts'

const MARKS: Record<Change['action'], ChangeMark> = { create: '+', update: '~', delete: '-' }

export function toWriteLines({ changes }: Pick<Changes, 'changes'>, paint: Paint): string {
  const routes = Map.groupBy(
    changes.filter(({ action, name }) => action !== 'update' && isRoute(name)),
    ({ name }) => modelOf(name),
  )
  const whole = new Set(changes.map(({ action, name }) => `${action} ${name}`))
  const lines = changes.map((change) => {
    const { action, name, origin } = change
    const mark = paint.mark(MARKS[action])
    if (action === 'update')
      return toLine(mark, change, ofOwner(origin)) + toEffectLine(change) + toFields(change, paint)
    // Routes are counted on the line of their model.
    if (isRoute(name) && whole.has(`${action} ${modelOf(name)}`)) return ''
    const own = routes.get(name)
    const more = own === undefined ? '' : `, ${count(own.length, 'route')}`
    return toLine(mark, change, action === 'delete' ? more + ofOwner(origin) : more) + toEffectLine(change)
  })
  return lines.join('')
}

const isRoute = (name: string) => name.includes(': route ')
const modelOf = (name: string) => name.slice(0, name.indexOf(': route '))
const ofOwner = (origin: Origin) => ` (${origin})`

const toLine = (mark: string, { name }: { name: string }, more: string) =>
  `${mark} ${toIndented(`${toPrintable(name)}${more}`, INDENT).trimStart()}`

export const toOverriddenLines = (overridden: readonly Overridden[], applied: Origin, paint: Paint): string =>
  overridden
    .map((one) => {
      const whose = one.origin === 'admin' ? 'set manually' : one.origin
      return toLine(paint.mark('='), one, ` (${whose}, overrides ${applied})`) + toFields(one, paint)
    })
    .join('')

/** Rows that differ but stay: overridden, or no longer declared. */
export function toStayingLines({ overridden, kept }: Applied, applied: Origin, paint: Paint): string {
  const routes = Map.groupBy(kept.filter(isRoute), modelOf)
  const lines = kept.map((name) => {
    if (isRoute(name) && kept.includes(modelOf(name))) return ''
    const own = routes.get(name)
    const more = own === undefined ? '' : `, ${count(own.length, 'route')}`
    return toLine(
      paint.mark('='),
      { name },
      `${more} (not in the ${applied === 'file' ? 'file' : 'catalog'}: kept; --prune deletes it)`,
    )
  })
  return toOverriddenLines(overridden, applied, paint) + lines.join('')
}

const INDENT = 4

function toEffectLine({ effect }: Change): string {
  const text = effect ? toEffectText(effect) : ''
  return text && `${' '.repeat(INDENT)}${toIndented(toPrintable(text), INDENT).trimStart()}`
}

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

/** One line of JSON with spaces for wrapping. */
const toSpaced = (value: unknown) =>
  JSON.stringify(value, null, 1)
    .replace(/(?<=[[{])\n *|\n *(?=[\]}])/g, '')
    .replace(/\n */g, ' ')

/** Such as `1 row created, 2 updated, 0 deleted, 40 unchanged`. Each route is a row. */
export const toCountText = ({ created, updated, deleted, unchanged }: Counts): string =>
  `${count(created, 'row')} created, ${updated} updated, ${deleted} deleted, ${unchanged} unchanged`

/** As `toCountText`, of a dry run. */
export const toPlanText = ({ created, updated, deleted, unchanged }: Counts): string =>
  `${count(created, 'row')} to create, ${updated} to update, ${deleted} to delete, ${unchanged} unchanged`

export interface DecideFlags {
  plan?: boolean
  yes?: boolean
}

/** Rejects contradictory options, and JSON output that would prompt. */
export function requireDecided({ yes, plan }: DecideFlags, io: Context): void {
  if (yes && plan) throw usageError('Pass either --plan or --yes, not both.')
  if (io.json && !yes && !plan) throw usageError('--json requires --yes or --plan.')
}

/** @param question such as `Add this?`. @throws CommandError `not_decided` if declined or without a terminal. */
export async function requireYes(question: string, io: Context): Promise<void> {
  const answer = await io.ask(`${question} [Y/n] `, false)
  if (answer === null) throw new CommandError('not_decided', 'Confirmation required. Pass --yes or run in a terminal.')
  if (!/^(y|yes)?$/i.test(answer.trim())) throw new CommandError('not_decided', 'No changes made.')
}
