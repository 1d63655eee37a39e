// biome-ignore-all lint/a11y/noRedundantRoles: laid out as cards, it loses its table semantics in browsers
// biome-ignore-all lint/a11y/useSemanticElements: as above
/** Tables (cards on a phone) with sorting in the URL, arrow-key navigation, and list filters. */
import type { ComponentChildren } from 'preact'
import { query, setQuery } from '../address/address.ts'
import { Button, Icon } from './controls.tsx'

export interface Column<Row> {
  /** In the URL's `sort`. */
  name: string
  title: string
  /** The first column's is a link to the row's details. */
  cell(row: Row): ComponentChildren
  /** Makes it sortable; text sorts ascending first, figures descending. */
  sortBy?(row: Row): string | number
  isFigure?: boolean
  /** Default true. */
  isOnPhone?: boolean
}

interface TableProps<Row> {
  /** For screen readers. */
  caption: string
  columns: readonly Column<Row>[]
  rows: readonly Row[]
  idOf(row: Row): string
  /** True for rows that arrived while the page was open: they are highlighted. */
  isNew?(row: Row): boolean
  /** Max rows drawn, after sorting. */
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
                  {toCell(cell(row))}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** As long as what a column can have on one line. */
const SHORT = 16

/** Short text stays on a line; of long text, two lines are shown, and all of it in its title and in the row's details. */
const toCell = (content: ComponentChildren) =>
  typeof content !== 'string' ? (
    content
  ) : content.length <= SHORT ? (
    <span class="short">{content}</span>
  ) : (
    <span class="long" title={content}>
      {content}
    </span>
  )

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

/** Rows in the URL's sort order, at most `most`. */
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

/** Arrow keys move focus between the entries' links. */
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

/** Adds the chosen value if it is missing, since the URL can hold anything. */
export const withChosen = (options: readonly Option[], chosen: string, text = chosen): readonly Option[] =>
  chosen === '' || options.some(([value]) => value === chosen) ? options : [...options, [chosen, text]]

interface ChoiceProps {
  /** Query parameter. */
  name: string
  label: string
  value: string
  /** '' is the default. */
  options: readonly (readonly [value: string, text: string])[]
  /** Pagination parameter to clear when the choice changes. */
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

/** The `search` query parameter. */
export const searched = (): string => query.value.get('search') ?? ''

/** @param what plural noun, such as `keys` */
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

export const ListFoot = ({ shown, all, children }: { shown: number; all: number; children?: ComponentChildren }) => (
  <p class="list-foot" aria-live="polite">
    {shown === all ? `${all} total` : `${shown} of ${all}`}
    {children}
  </p>
)

/** Rows drawn initially, and per "Show more". */
export const STEP = 100

interface MoreProps {
  /** Total rows, and the max drawn. */
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
