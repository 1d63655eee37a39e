/**
 * What a command works with: where it writes, where the data are, whether its answer is JSON; and how it writes for people:
 * tables, times, names. Light on purpose: `serve` and `version` load it before anything else.
 */
import { version as checkout } from '../../package.json'
import { ServiceError } from '../domain/service-error.ts'
import type { Environment } from '../domain/snapshot.ts'
import type { Store } from '../store/store.ts'
import { type Paint, PLAIN } from './terminal.ts'

export interface Io {
  /** Both take text as it is; the caller ends its own lines. */
  stdout(text: string): void
  stderr(text: string): void
  /** Resolves once all that was written to stdout has left; false where nobody reads it any more. */
  stdoutLeft(): Promise<boolean>
  /** All that is piped in; null where standard input is a terminal. */
  stdin(): Promise<string | null>
  /** Asks at the terminal, and reads one line; a secret is not shown. Null where there is none, or nobody wants to answer. */
  ask(question: string, isSecret: boolean): Promise<string | null>
  /**
   * Runs another program with the terminal of this one. Resolves to its exit code; null where there is no such program on the PATH of
   * the variables that it is given.
   */
  run(command: string, args: readonly string[], environment: Environment): Promise<number | null>
  /** Whether a person reads what is written there: 1 is stdout, 2 is stderr. */
  isTerminal(fd: 1 | 2): boolean
  /** Columns of the terminal that stdout is. */
  columns(): number
  /** Lets every other process have a core first, from here on: for work that nobody waits for. */
  giveWay(): Promise<void>
  environment: Environment
  nowMs(): number
  cwd: string
}

/** An `Io` with what the options of the program itself say, wherever on the command line they stand. */
export interface Context extends Io {
  /** Full path of the data folder: `--data`, else TOLLGATE_DATA, else ./tollgate_data. */
  readonly dataFolder: string
  readonly json: boolean
  /** For what goes to stdout, and a person reads. */
  readonly paint: Paint
}

declare const TOLLGATE_VERSION: string | undefined

/** The version, such as `0.1.0`: the build inlines it (`--define`), a checkout reads its own package.json. */
export const version = () => (typeof TOLLGATE_VERSION === 'string' ? TOLLGATE_VERSION : checkout)

/**
 * Opens the database of the data folder, if there is one, and closes it when the work is done. What changes the configuration asks the
 * admin API instead (`admin-client.ts`).
 */
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

/** Two command lines to copy, without the program's name, for below the help of a command. */
export const toExamples = (...lines: [string, string]) =>
  `\nExamples:\n${lines.map((line) => `  tollgate ${line}\n`).join('')}`

/** Prints one JSON document. */
export function printJson(io: Io, document: unknown): void {
  io.stdout(`${JSON.stringify(document, toNumber, 2)}\n`)
}

/** However large it is. */
const toNumber = (_: string, value: unknown) => (typeof value === 'bigint' ? JSON.rawJSON(String(value)) : value)

/** Under these a cell is a word for how something is. */
const STATES = new Set(['STATE', 'STATUS', 'READY'])

/** Aligns rows under their headings, two spaces apart. */
export function toTable(headings: string[], rows: string[][], paint: Paint = PLAIN): string {
  const states = headings.map((heading) => STATES.has(heading))
  const painted = rows.map((row) => row.map((cell, column) => (states[column] ? paint.state(cell) : cell)))
  const lines = [headings.map(paint.head), ...painted]
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => Bun.stringWidth(line[column] ?? ''))))
  const pad = (cell: string, column: number) => cell + ' '.repeat((widths[column] ?? 0) - Bun.stringWidth(cell))
  return lines.map((line) => `${line.map(pad).join('  ').trimEnd()}\n`).join('')
}

/** The same, with what else there is to say of each row beneath it, a paragraph an item; '' says nothing. */
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

/** Of what stands beneath a row. */
const INDENT = 10

/** What is known of one thing, under its heading: a line each, which may be several of a terminal, behind what it is about. */
export function toFactLines(heading: string, facts: readonly (readonly [what: string, text: string])[]): string {
  const width = Math.max(...facts.map(([what]) => what.length)) + 2
  const lines = facts.map(
    ([what, text]) => `  ${what.padEnd(width)}${toIndented(toPrintable(text), width + 2).trimStart()}`,
  )
  return `${toPrintable(heading)}\n${lines.join('')}`
}

/** Writes a time as UTC to the minute: `2027-01-31 12:00`. */
export const toTime = (ms: number) => new Date(ms).toISOString().slice(0, 16).replace('T', ' ')

/** Columns of a terminal that nobody made wider. */
export const WIDTH = 80

/** Breaks words into lines of a terminal, each behind so many spaces. A word that is too long has a line to itself. */
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

/** Of a name in a table. */
const NAME_WIDTH = 18

/** A name as a cell of a table, which has to be narrow. */
export function toShort(name: string, width = NAME_WIDTH): string {
  const text = toPrintable(name)
  if (Bun.stringWidth(text) <= width) return text
  let short = ''
  for (const letter of text) if (Bun.stringWidth(short + letter) < width) short += letter
  return `${short}…`
}

/** Of what a change of the catalogue is from, mostly the path of a file. */
const SOURCE_WIDTH = 30

/** The same of a source: paths differ in their ends. */
export function toShortSource(source: string): string {
  const text = toPrintable(source)
  if (Bun.stringWidth(text) <= SOURCE_WIDTH) return text
  const letters = [...text]
  while (Bun.stringWidth(letters.join('')) >= SOURCE_WIDTH) letters.shift()
  return `…${letters.join('')}`
}

/** A source that is not all in its cell, for beneath it; '' for one that is. */
export function toWholeSource(source: string): string {
  const text = toPrintable(source)
  return Bun.stringWidth(text) <= SOURCE_WIDTH ? '' : text
}

/** Control characters of a name would be commands to the terminal that shows it. */
export const toPrintable = (text: string) => text.replace(/[\p{Cc}\p{Bidi_Control}]/gu, '?')

/** The same of a text of several lines. */
export const toPrintableLines = (text: string) => text.split('\n').map(toPrintable).join('\n')

/** The same of a text that has to be one line, whatever line breaks whoever wrote it put there. */
export const toOneLine = (text: string) => toPrintable(text.replace(/\s*[\n\r\v\f\u0085\u2028\u2029]+\s*/g, ' ').trim())
