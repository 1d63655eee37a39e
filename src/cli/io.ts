/** The context of a command, and text output. Keep it light: `serve` and `version` load it first. */
import { version as checkout } from '../../package.json'
import { ServiceError } from '../domain/service-error.ts'
import type { Environment } from '../domain/snapshot.ts'
import type { Store } from '../store/store.ts'
import { type Paint, PLAIN } from './terminal.ts'

export interface Io {
  /** The caller adds line breaks. */
  stdout(text: string): void
  stderr(text: string): void
  /** Resolves once stdout is drained; false if closed by its reader. */
  stdoutLeft(): Promise<boolean>
  /** Piped input; null if stdin is a terminal. */
  stdin(): Promise<string | null>
  /** A secret is not echoed. Null without a terminal or if canceled. */
  ask(question: string, isSecret: boolean): Promise<string | null>
  /** Resolves to the exit code; null if it is not on the PATH of `environment`. */
  run(command: string, args: readonly string[], environment: Environment): Promise<number | null>
  isTerminal(fd: 1 | 2): boolean
  columns(): number
  /** Lowers the process's priority, for background work. */
  giveWay(): Promise<void>
  environment: Environment
  nowMs(): number
  cwd: string
}

export interface Context extends Io {
  /** Full path: `--data`, else TOLLGATE_DATA, else ./tollgate_data. */
  readonly dataFolder: string
  readonly json: boolean
  /** For stdout. */
  readonly paint: Paint
}

declare const TOLLGATE_VERSION: string | undefined

/** The build inlines it (`--define`); a checkout reads its package.json. */
export const version = () => (typeof TOLLGATE_VERSION === 'string' ? TOLLGATE_VERSION : checkout)

/** False in a checkout. @param main path of the script. */
export const isCompiled = (main = Bun.main) => /^(\/\$bunfs\/|B:\/~BUN\/)/.test(main)

/** Opens an existing database for the work, then closes it. To change configuration use `withAdmin` instead. */
export async function withStore<T>(
  io: Context,
  options: { readonly?: boolean },
  work: (store: Store) => T | Promise<T>,
): Promise<T> {
  const { dataFolder } = io
  const [{ requireSettled }, { findLost }, { requireReadable }, { storeOf }] = await Promise.all([
    import('../backup/replace-database.ts'),
    import('../ledger/mark.ts'),
    import('../store/data-folder.ts'),
    import('../store/open.ts'),
  ])
  requireReadable(dataFolder)
  requireSettled(dataFolder)
  const lost = findLost(dataFolder)
  if (lost !== null) throw new ServiceError({ kind: 'database_lost', dataFolder }, lost)
  const place = storeOf(dataFolder)
  const store = place.open(options)
  try {
    return await work(store)
  } catch (error) {
    throw place.explain(error)
  } finally {
    store.close()
  }
}

/** Help examples, without the program's name. */
export const toExamples = (...lines: [string, string]) =>
  `\nExamples:\n${lines.map((line) => `  tollgate ${line}\n`).join('')}`

export function printJson(io: Io, document: unknown): void {
  io.stdout(`${JSON.stringify(document, toNumber, 2)}\n`)
}

const toNumber = (_: string, value: unknown) => (typeof value === 'bigint' ? JSON.rawJSON(String(value)) : value)

/** Columns whose cells are colored by state. */
const STATES = new Set(['STATE', 'STATUS', 'READY'])

export function toTable(headings: string[], rows: string[][], paint: Paint = PLAIN): string {
  const states = headings.map((heading) => STATES.has(heading))
  const painted = rows.map((row) => row.map((cell, column) => (states[column] ? paint.state(cell) : cell)))
  const lines = [headings.map(paint.head), ...painted]
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => Bun.stringWidth(line[column] ?? ''))))
  const pad = (cell: string, column: number) => cell + ' '.repeat((widths[column] ?? 0) - Bun.stringWidth(cell))
  return lines.map((line) => `${line.map(pad).join('  ').trimEnd()}\n`).join('')
}

/** With notes below each row, one paragraph each; '' is skipped. */
export function toDescribedTable(
  headings: string[],
  rows: string[][],
  notes: readonly string[][],
  paint: Paint = PLAIN,
): string {
  const [head = '', ...lines] = toTable(headings, rows, paint).trimEnd().split('\n')
  const beneath = (row: number) =>
    (notes[row] ?? []).map((note) => (note === '' ? '' : paint.aside(toIndented(note, INDENT))))
  return `${head}\n${lines.map((line, row) => `${line}\n${beneath(row).join('')}`).join('')}`
}

const INDENT = 10

export function toFactLines(heading: string, facts: readonly (readonly [what: string, text: string])[]): string {
  const width = Math.max(...facts.map(([what]) => what.length)) + 2
  const lines = facts.map(
    ([what, text]) => `  ${what.padEnd(width)}${toIndented(toPrintable(text), width + 2).trimStart()}`,
  )
  return `${toPrintable(heading)}\n${lines.join('')}`
}

/** UTC to the minute: `2027-01-31 12:00`. */
export const toTime = (ms: number) => new Date(ms).toISOString().slice(0, 16).replace('T', ' ')

export const WIDTH = 80

/** A word longer than WIDTH gets its own line. */
export function toIndented(text: string, indent: number): string {
  let lines = ''
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && Bun.stringWidth(`${line} ${word}`) > WIDTH - indent) {
      lines += `${' '.repeat(indent)}${line}\n`
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return `${lines}${' '.repeat(indent)}${line}\n`
}

const NAME_WIDTH = 18

export function toShort(name: string, width = NAME_WIDTH): string {
  const text = toPrintable(name)
  if (Bun.stringWidth(text) <= width) return text
  let short = ''
  for (const letter of text) if (Bun.stringWidth(short + letter) < width) short += letter
  return `${short}…`
}

const SOURCE_WIDTH = 30

/** Truncates at the start, since paths differ at their ends. */
export function toShortSource(source: string): string {
  const text = toPrintable(source)
  if (Bun.stringWidth(text) <= SOURCE_WIDTH) return text
  const letters = [...text]
  while (Bun.stringWidth(letters.join('')) >= SOURCE_WIDTH) letters.shift()
  return `…${letters.join('')}`
}

/** The whole source if `toShortSource` truncates it; else ''. */
export function toWholeSource(source: string): string {
  const text = toPrintable(source)
  return Bun.stringWidth(text) <= SOURCE_WIDTH ? '' : text
}

/** Replaces control characters: a terminal would obey them. */
export const toPrintable = (text: string) => text.replace(/[\p{Cc}\p{Bidi_Control}]/gu, '?')

export const toPrintableLines = (text: string) => text.split('\n').map(toPrintable).join('\n')

/** Also joins lines. */
export const toOneLine = (text: string) => toPrintable(text.replace(/\s*[\n\r\v\f\u0085\u2028\u2029]+\s*/g, ' ').trim())
