/** Search and filters of requests: common filters, others behind "More filters", and links that remove active ones. */
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { REPORT_PARAMETERS } from '../../domain/report-filters.ts'
import { RECORDED_ENDPOINTS } from '../../domain/task.ts'
import { HOUR_MS } from '../../domain/time.ts'
import { open, query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { withQuery } from '../address/match.ts'
import { api, ask } from '../api/client.ts'
import { nowMs } from '../api/clock.ts'
import { useLoaded } from '../api/loaded.ts'
import { isMember, may } from '../api/session.ts'
import { useKeys, useModels } from '../keys/data.ts'
import { toQuery } from '../overview/range.ts'
import { toGiven } from '../reports/filters.ts'
import { useTeams } from '../teams/data.ts'
import { Button, Icon } from '../ui/controls.tsx'
import { Problem } from '../ui/notice.tsx'
import { Choice, type Option, withChosen } from '../ui/table.tsx'
import { useUpstreams } from '../upstreams/data.ts'
import { useRequest } from './data.ts'
import {
  CUSTOM,
  PERIODS,
  type RequestFilters,
  STATES,
  spanOf,
  toCustom,
  toHourOfId,
  toInputTime,
  toPeriod,
  toPeriodText,
  toPeriodValue,
} from './words.ts'

type Named = Exclude<keyof RequestFilters, 'state' | 'since' | 'until'>

const PAGE = 'before'

export function Filters({ of: filters }: { of: RequestFilters }) {
  const keys = useKeys().data ?? []
  const isOpen = query.value.has('more')
  return (
    <>
      <search class="filters">
        <Search />
        <Choice
          name="state"
          label="Status"
          value={filters.state}
          options={withChosen(STATES, filters.state)}
          restarts={PAGE}
        />
        <Field name="key" of={filters} options={keys.map(({ id, name }) => [id, name])} />
        <Period of={filters} />
        <Button aria-expanded={isOpen} onClick={() => setQuery({ more: isOpen ? null : '1' })}>
          {isOpen ? 'Fewer filters' : 'More filters'}
        </Button>
        {isOpen && <MoreFields of={filters} />}
      </search>
      {toPeriod(filters) === CUSTOM && <CustomPeriod of={filters} />}
      <Active of={filters} keys={keys} />
    </>
  )
}

function Search() {
  const id = query.value.get('id') ?? ''
  return (
    <form
      class="id-search"
      onSubmit={(event) => {
        event.preventDefault()
        const typed = String(new FormData(event.currentTarget).get('id') ?? '').trim()
        setQuery({ id: typed === '' ? null : typed }, 'push')
      }}
    >
      <input
        type="search"
        name="id"
        aria-label="Find a request by ID"
        title="Request ID or its last 8 digits, x-request-id, response ID, or the upstream's request ID"
        placeholder="Find by ID"
        defaultValue={id}
        key={id}
        data-search
      />
      {id !== '' && <Found key={id} id={id} />}
    </form>
  )
}

/** Opens the request that has this ID, or says why it can't. */
function Found({ id }: { id: string }) {
  const { data, problem, reload } = useRequest(id, false)
  useEffect(() => {
    if (data !== null) open(`/requests/${data.id}`, { replace: true })
  }, [data])
  if (problem === null) return <span class="dim">Searching…</span>
  if (problem.kind !== 'request_not_found') return <Problem of={problem} retry={reload} />
  const sinceMs = may('viewer') ? toHourOfId(id, nowMs.value) : null
  return (
    <div class="problem" role="alert">
      <Icon name="warning" />
      <p>
        {problem.message} Requests that were refused before a model was called, such as for a wrong key, model, or a
        spent budget, have no entry and are only counted. See{' '}
        {sinceMs !== null && (
          <>
            <a href={toHref(`/${withQuery('', toQuery(sinceMs, sinceMs + HOUR_MS))}`)}>refusals of its hour</a> or{' '}
          </>
        )}
        <a href={toHref('/keys?state=refused')}>keys with refused requests</a>.
      </p>
    </div>
  )
}

const Field = ({ name, of, options }: { name: Named; of: RequestFilters; options: readonly Option[] }) => {
  const { title } = REPORT_PARAMETERS[name]
  return (
    <Choice
      name={name}
      label={title}
      value={of[name]}
      options={withChosen([['', `${title}: all`], ...options], of[name])}
      restarts={PAGE}
    />
  )
}

const same = (values: readonly string[]): Option[] => values.map((value) => [value, value])

function MoreFields({ of }: { of: RequestFilters }) {
  const models = useModels().data ?? []
  return (
    <>
      {!isMember() && <AdminFields of={of} />}
      <Field name="model" of={of} options={same(models.map(({ slug }) => slug))} />
      <Field name="endpoint" of={of} options={same(RECORDED_ENDPOINTS)} />
      <input
        type="text"
        aria-label="User, as reported by the client"
        placeholder="User reported by client"
        value={of.user}
        onChange={({ currentTarget: { value } }) => setQuery({ user: value.trim(), [PAGE]: null })}
      />
    </>
  )
}

function AdminFields({ of }: { of: RequestFilters }) {
  const keys = useKeys().data ?? []
  const owners = new Map(keys.flatMap(({ owner_id: id, owner }) => (id && owner ? [[id, owner]] : [])))
  return (
    <>
      <Field name="error_code" of={of} options={same(useCodes(of))} />
      <Field name="team" of={of} options={(useTeams().data ?? []).map(({ id, name }) => [id, name])} />
      <Field name="owner" of={of} options={[...owners]} />
      <Field name="upstream" of={of} options={same((useUpstreams().data ?? []).map(({ id }) => id))} />
    </>
  )
}

const MAX_CODES = 100

/** Codes of requests in the period. */
function useCodes({ since, until }: RequestFilters): readonly string[] {
  const span = { since: since || '30d', ...toGiven({ until }) }
  const { data } = useLoaded(`error codes?${JSON.stringify(span)}`, async () => {
    const { failures } = await ask(api.failures.get({ query: { ...span, limit: MAX_CODES } }))
    return [...new Set(failures.flatMap(({ error_code: code }) => code ?? []))].sort()
  })
  return data ?? []
}

const Period = ({ of }: { of: RequestFilters }) => {
  const value = toPeriod(of)
  return (
    <select
      aria-label="Period"
      onChange={({ currentTarget }) =>
        setQuery({ ...toPeriodValue(currentTarget.value, of, nowMs.value), [PAGE]: null })
      }
    >
      {PERIODS.map(({ name, title }) => (
        <option key={name} value={name} selected={name === value}>
          {title}
        </option>
      ))}
    </select>
  )
}

function CustomPeriod({ of }: { of: RequestFilters }) {
  const [from, to] = [of.since, of.until].map((text) => toInputTime(text, nowMs.peek())) as [string, string]
  const send = (event: SubmitEvent) => {
    event.preventDefault()
    const fields = new FormData(event.currentTarget as HTMLFormElement)
    const [since = '', until = ''] = [fields.get('since'), fields.get('until')].map(String)
    setQuery({ ...toCustom(since, until), [PAGE]: null }, 'push')
  }
  return (
    // The key re-creates the form when the URL changes.
    <form key={`${of.since} ${of.until}`} class="custom-range period-form" onSubmit={send}>
      <label>
        From (UTC)
        <input type="datetime-local" name="since" defaultValue={from} required />
      </label>
      <label>
        To (UTC)
        <input type="datetime-local" name="until" defaultValue={to} />
      </label>
      <Button type="submit">Apply</Button>
    </form>
  )
}

interface ActiveProps {
  of: RequestFilters
  keys: readonly { id: string; name: string; owner_id: string | null; owner: string | null }[]
}

function Active({ of, keys }: ActiveProps) {
  const teams = useTeams().data ?? []
  const nameOf = (name: Named, value: string): string | null | undefined => {
    if (name === 'key') return keys.find(({ id }) => id === value)?.name
    if (name === 'team') return teams.find(({ id }) => id === value)?.name
    return name === 'owner' ? keys.find(({ owner_id: id }) => id === value)?.owner : undefined
  }
  const { state, since, until, ...named } = of
  const period = toPeriodText(of, nowMs.value)
  const given = Object.entries(toGiven(named)) as [Named, string][]
  if (given.length === 0 && state === '' && period === '') return null
  return (
    <p class="chips">
      {state !== '' && <Chip names={['state']}>{STATES.find(([name]) => name === state)?.[1] ?? state}</Chip>}
      {period !== '' && <Chip names={spanOf}>{period}</Chip>}
      {given.map(([name, value]) => (
        <Chip key={name} names={[name]}>
          {REPORT_PARAMETERS[name].title}: {nameOf(name, value) ?? value}
        </Chip>
      ))}
      <a href={toHref('/requests')}>Clear filters</a>
    </p>
  )
}

const Chip = ({ names, children }: { names: readonly string[]; children: ComponentChildren }) => (
  <a class="chip" href={toHrefWith({ ...Object.fromEntries(names.map((name) => [name, null])), [PAGE]: null })}>
    <span class="unseen">Remove filter </span>
    {children}
    <Icon name="close" />
  </a>
)
