/** The audit log: who changed what and when, field by field. */
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { api, ask } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'
import { may } from '../api/session.ts'
import { Page } from '../shell/page.tsx'
import { useTeams } from '../teams/data.ts'
import { FieldChanges, When } from '../ui/figure.tsx'
import { Empty, RowsRoom, Unread } from '../ui/notice.tsx'
import { Choice } from '../ui/table.tsx'
import {
  type AuditEntry,
  type ChangedThing,
  GROUPS,
  type Names,
  toActor,
  toChanges,
  toDeed,
  toObject,
  toPlace,
} from './words.ts'

/** Entries with more fields are folded. */
const MAX_OPEN = 4

const SINCE = [
  ['', 'Any time'],
  ['24h', 'Last 24 hours'],
  ['7d', 'Last 7 days'],
  ['30d', 'Last 30 days'],
] as const

export function AuditPage() {
  const filter = Object.fromEntries(
    [...FILTERS, 'before'].map((name) => [name, query.value.get(name) ?? '']),
  ) as AuditFilter
  const { data, problem, reload } = useAudit(filter)
  const names = new Map(useTeams().data?.map(({ id, name }) => [id, name]))
  const isFiltered = FILTERS.some((name) => filter[name] !== '')
  return (
    <Page title="Audit log">
      <search class="filters">
        <Choice name="action" label="Type" value={filter.action} options={GROUPS} restarts="before" />
        <Choice name="since" label="Period" value={filter.since} options={SINCE} restarts="before" />
        <Typed name="actor" label="Actor" value={filter.actor} />
        <Typed name="subject" label="Name or ID" value={filter.subject} isSearch />
      </search>
      <Unread of={data} problem={problem} retry={reload}>
        <RowsRoom />
      </Unread>
      {data !== null && data.audit.length === 0 && (isFiltered ? <NothingLikeThat /> : <Nothing />)}
      {data !== null && data.audit.length > 0 && (
        <ol class="audit">
          {data.audit.map((entry) => (
            <Entry key={entry.id} of={entry} names={names} />
          ))}
        </ol>
      )}
      <p class="list-foot audit-foot">
        {filter.before !== '' && <a href={toHrefWith({ before: null })}>Newest</a>}
        {data !== null && data.next !== null && <a href={toHrefWith({ before: data.next })}>Older</a>}
      </p>
    </Page>
  )
}

/** Applies on Enter or blur, not at each keystroke. */
const Typed = ({
  name,
  label,
  value,
  isSearch = false,
}: {
  name: string
  label: string
  value: string
  isSearch?: boolean
}) => (
  <input
    type="search"
    aria-label={label}
    placeholder={label}
    value={value}
    data-search={isSearch || undefined}
    onChange={({ currentTarget }) => setQuery({ [name]: currentTarget.value.trim(), before: null })}
  />
)

const NothingLikeThat = () => (
  <p class="dim">
    No matching changes. <a href={toHref('/audit')}>Show all</a>
  </p>
)

const Nothing = () => (
  <Empty title="No changes yet">
    <p>Changes made here or from the command line appear on this page, with who made them and the old values.</p>
  </Empty>
)

function Entry({ of: entry, names }: { of: AuditEntry; names: Names }) {
  const [object, place] = [toObject(entry), toPlace(entry)]
  const [by, who] = [entry.actor_name ?? entry.actor, toActor(entry)]
  return (
    <li>
      <p class="audit-line">
        <span>
          <a class="actor" href={toHrefWith({ actor: by, before: null })} title={`Show only changes by ${who}`}>
            {who}
          </a>{' '}
          {toDeed(entry)}{' '}
          {place !== null && may(place.least) ? <a href={toHref(place.path)}>{object}</a> : <strong>{object}</strong>}
        </span>
        <span class="dim">
          <When ms={entry.at_ms} />
        </span>
      </p>
      <Changes of={toChanges(entry, names)} />
    </li>
  )
}

function Changes({ of: things }: { of: readonly ChangedThing[] }) {
  const count = things.reduce((sum, { fields }) => sum + fields.length, 0)
  if (count === 0) return null
  const content = things.map(({ name, fields }) => (
    <div key={name ?? ''}>
      {name !== null && <p>{name}</p>}
      <FieldChanges of={fields} />
    </div>
  ))
  if (count <= MAX_OPEN) return <>{content}</>
  return (
    <details>
      <summary>{things.length > 1 ? `${things.length} entries, ${count} fields` : `${count} fields`}</summary>
      {content}
    </details>
  )
}

const FRESH_MS = 15_000
const ROWS = 50

export const FILTERS = ['since', 'actor', 'action', 'subject'] as const

/** As in the URL; '' for none. */
export type AuditFilter = Record<(typeof FILTERS)[number] | 'before', string>

/** Newest first. Older pages never change, so they aren't refreshed. */
function useAudit(filter: AuditFilter) {
  const query = Object.fromEntries(Object.entries(filter).filter(([, text]) => text !== ''))
  return useLoaded(
    `audit?${new URLSearchParams(query)}`,
    () => ask(api.audit.get({ query: { ...query, limit: ROWS } })),
    filter.before === '' ? { everyMs: FRESH_MS } : {},
  )
}
