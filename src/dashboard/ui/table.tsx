// biome-ignore-all lint/a11y/noRedundantRoles: to a browser, what is laid out as cards is no table any more
// biome-ignore-all lint/a11y/useSemanticElements: as above
/**
 * A list: a table where there is room, cards on a phone, with its title and the figures that matter there. Its first cell leads to all
 * of a row; the arrows go from one to the next. How it is sorted stands in the address.
 */
import type { ComponentChildren } from 'preact'
import { query, setQuery } from '../address/address.ts'
import { Button, Icon } from './controls.tsx'

export interface Column<Row> {
  /** In the address, and for React-like keys. */
  name: string
  title: string
  /** In the first column a link, which stands for the whole row. */
  cell(row: Row): ComponentChildren
  /** Whether it can be sorted by it, and by what. Text goes up first, figures down. */
  sortBy?(row: Row): string | number
  isFigure?: boolean
  /** What a card on a phone leaves out is behind a tap. */
  isOnPhone?: boolean
}

interface TableProps<Row> {
  /** For those who hear it. */
  caption: string
  columns: readonly Column<Row>[]
  rows: readonly Row[]
  idOf(row: Row): string
  /** Whether it has arrived while somebody looked: it enters with a soft light. */
  isNew?(row: Row): boolean
  /** How many are drawn at most, the first as they are sorted. */
  most?: number
}

export function Table<Row>({ caption, columns, rows, idOf, isNew, most }: TableProps<Row>) {
  const sort = query.value.get('sort') ?? ''
  return (
    <div class="table-frame">
      <table class="table" role="table">
        <caption class="unseen">{caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column) => (
              <Heading key={column.name} column={column} sort={sort} />
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup" onKeyDown={moveBetween('tr')}>
          {toDrawn(columns, rows, most).map((row) => (
            <tr key={idOf(row)} role="row" class={toClass({ arrived: isNew?.(row) })}>
              {columns.map(({ name, title, cell, isFigure, isOnPhone = true }) => (
                <td
                  key={name}
                  role="cell"
                  data-title={title}
                  class={toClass({ figure: isFigure, 'not-on-phone': !isOnPhone })}
                >
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Heading<Row>({ column, sort }: { column: Column<Row>; sort: string }) {
  const { name, title, sortBy, isFigure = false } = column
  const isDown = sort === `-${name}`
  const isSorted = isDown || sort === name
  const first = isFigure ? `-${name}` : name
  const next = sort === first ? (isFigure ? name : `-${name}`) : first
  return (
    <th
      role="columnheader"
      scope="col"
      class={toClass({ figure: isFigure })}
      aria-sort={isSorted ? (isDown ? 'descending' : 'ascending') : undefined}
    >
      {sortBy ? (
        <button type="button" class="sort" onClick={() => setQuery({ sort: next })}>
          {title}
          {isSorted && <Icon name={isDown ? 'down' : 'up'} />}
        </button>
      ) : (
        title
      )}
    </th>
  )
}

const toClass = (classes: Record<string, boolean | undefined>) =>
  Object.keys(classes)
    .filter((name) => classes[name])
    .join(' ') || undefined

/** The rows that a table draws, in its order: as the address says, and so many at most. */
export function toDrawn<Row>(
  columns: readonly Pick<Column<Row>, 'name' | 'sortBy'>[],
  rows: readonly Row[],
  most?: number,
): readonly Row[] {
  const sort = query.value.get('sort') ?? ''
  const by = columns.find(({ name }) => name === sort.replace(/^-/, ''))
  return sorted(rows, by?.sortBy, sort.startsWith('-')).slice(0, most)
}

function sorted<Row>(rows: readonly Row[], by: Column<Row>['sortBy'], isDown: boolean): readonly Row[] {
  if (!by) return rows
  const compare = (a: string | number, b: string | number) =>
    typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b))
  return rows.toSorted((a, b) => compare(by(a), by(b)) * (isDown ? -1 : 1))
}

/** For a list: the arrows go from the link of one entry to that of the next. */
export const moveBetween = (entry: 'tr' | 'li') => (event: KeyboardEvent) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
  const { target, currentTarget } = event
  if (step === undefined || !(target instanceof HTMLElement) || !(currentTarget instanceof HTMLElement)) return
  const rows = [...currentTarget.querySelectorAll(entry)]
  const next = rows[rows.findIndex((row) => row.contains(target)) + step]
  const link = next?.querySelector<HTMLElement>('a, button')
  if (!link) return
  event.preventDefault()
  link.focus()
}

export type Option = readonly [value: string, text: string]

/** With what is chosen among them, whatever the address says. */
export const withChosen = (options: readonly Option[], chosen: string, text = chosen): readonly Option[] =>
  chosen === '' || options.some(([value]) => value === chosen) ? options : [...options, [chosen, text]]

interface ChoiceProps {
  /** In the address. */
  name: string
  label: string
  value: string
  /** '' for what is shown where nothing is said. */
  options: readonly (readonly [value: string, text: string])[]
  /** What in the address says from where on the list is shown: it begins anew. */
  restarts?: string
}

export const Choice = ({ name, label, value, options, restarts }: ChoiceProps) => (
  <select
    aria-label={label}
    onChange={({ currentTarget }) =>
      setQuery({ [name]: currentTarget.value, ...(restarts === undefined ? {} : { [restarts]: null }) })
    }
  >
    {options.map(([one, text]) => (
      <option key={one} value={one} selected={one === value}>
        {text}
      </option>
    ))}
  </select>
)

/** The words that `SearchFilter` has put into the address. */
export const searched = (): string => query.value.get('search') ?? ''

/** @param what is searched, such as `keys`. The address has its words as `search`. */
export const SearchFilter = ({ what }: { what: string }) => (
  <input
    type="search"
    aria-label={`Search ${what}`}
    placeholder={`Search ${what}`}
    value={searched()}
    data-search
    onInput={({ currentTarget: { value } }) => setQuery({ search: value })}
  />
)

/** Below a list: how many of all are shown. */
export const ListFoot = ({ shown, all, children }: { shown: number; all: number; children?: ComponentChildren }) => (
  <p class="list-foot" aria-live="polite">
    {shown === all ? `${all} in all` : `${shown} of ${all}`}
    {children}
  </p>
)

/** Rows that a list begins with, and goes on by. */
export const STEP = 100

interface MoreProps {
  /** Rows that there are, and how many of them are drawn at most. */
  rows: number
  most: number
  setMost(most: number): void
}

export const More = ({ rows, most, setMost }: MoreProps) =>
  rows > most ? (
    <p>
      <Button onClick={() => setMost(most + STEP)}>Show {Math.min(STEP, rows - most)} more</Button>
    </p>
  ) : null
