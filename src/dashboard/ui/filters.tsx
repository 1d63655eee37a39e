/** What narrows a list. All of it stands in the address. */
import type { ComponentChildren } from 'preact'
import { query, setQuery } from '../address/address.ts'

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
