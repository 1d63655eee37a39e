/** The list of keys, filtered by the URL, and the page of a new key. */
import { useState } from 'preact/hooks'
import type { KeyDocument } from '../../documents/key.ts'
import { KEY_FIELDS, LISTED } from '../../keys/definition.ts'
import { toStanding } from '../../keys/standing.ts'
import { named, query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { withQuery } from '../address/match.ts'
import { nowMs } from '../api/clock.ts'
import { isMember } from '../api/session.ts'
import { toExactCount } from '../figures/figures.ts'
import { FormPage, NotForYou, Page } from '../shell/page.tsx'
import { useSpentTeams, useTeams } from '../teams/data.ts'
import { Button, ButtonLink, Code } from '../ui/controls.tsx'
import { Money, None, Sparkline } from '../ui/figure.tsx'
import { useForm } from '../ui/form.tsx'
import { announce, Empty, FactsRoom, tell, Unread } from '../ui/notice.tsx'
import { Choice, type Column, ListFoot, More, SearchFilter, STEP, Table, toDrawn, withChosen } from '../ui/table.tsx'
import { CreatedKey } from './created.tsx'
import { makeKey, mayChangeKeys, rotateKey, useDays, useKeys } from './data.ts'
import { KeyDrawer } from './drawer.tsx'
import { BudgetCell, LastUsed, RefusedState, StandingMark, toBudgetShare } from './facts.tsx'
import { SettableFields, useChoicesRead } from './fields.tsx'
import { KEY_FORM, type Values } from './values.ts'
import { useKeyWarnings } from './warn.ts'
import { DAYS, type Day, filterKeys, toShortLimits, toShortModels } from './words.ts'

/** In the team of the filter, if there is one. */
const newKey = () =>
  mayChangeKeys() && (
    <ButtonLink kind="main" icon="plus" href={toHref(`/keys/new${withQuery('', { team: named('team') })}`)} data-new>
      New key
    </ButtonLink>
  )

export function KeysPage() {
  const { data: keys, problem, reload } = useKeys()
  const open = named('key')
  return (
    <Page title="Keys" actions={keys !== null && keys.length > 0 && newKey()}>
      <Unread of={keys} problem={problem} retry={reload} />
      {keys !== null && (keys.length === 0 ? <NoKeys /> : <List keys={keys} />)}
      {open !== null && <KeyDrawer key={open} id={open} onClose={() => setQuery({ key: null, edit: null })} />}
    </Page>
  )
}

const NoKeys = () => (
  <Empty title="No keys yet">
    <p>
      API keys give people and apps access to models. Each has its own limits, budget, and usage, and can be revoked.
    </p>
    {newKey()}
    {!isMember() && (
      <>
        <p class="dim">Or from the command line:</p>
        <Code label="Command that creates a key" text="tollgate keys create --name ann --budget 20/month" />
      </>
    )}
  </Empty>
)

const STATES = [
  ['', 'Active'],
  ['budget_spent', 'Budget spent'],
  ['team_budget_spent', 'Team budget spent'],
  ['refused', 'Refused requests'],
  ['expired', 'Expired'],
  ['revoked', 'Revoked'],
  ['all', 'All statuses'],
] as const

function List({ keys }: { keys: readonly KeyDocument[] }) {
  const [search, team, state] = ['search', 'team', 'state'].map((name) => query.value.get(name) ?? '') as [
    ...[string, string, string],
  ]
  const [most, setMost] = useState(STEP)
  const spentTeams = useSpentTeams()
  const shown = filterKeys(keys, { search, team, state, spentTeams })
  const drawn = toDrawn(columnsFor(shown, spentTeams), shown, most)
  // With many keys, only those on screen.
  const days = useDays(keys.length > STEP ? drawn.map(({ id }) => id) : null).data ?? NO_DAYS
  const teams = [...new Set(keys.flatMap((key) => key.team ?? []))].sort()
  const chosenTeam = keys.find(({ team_id }) => team_id === team)?.team ?? team
  return (
    <>
      <search class="filters">
        <SearchFilter what="keys" />
        {(teams.length > 0 || team !== '') && !isMember() && (
          <Choice
            name="team"
            label="Team"
            value={chosenTeam}
            options={withChosen([['', 'All teams'], ...teams.map((one) => [one, one] as const)], chosenTeam)}
          />
        )}
        <Choice name="state" label="Status" value={state} options={STATES} />
      </search>
      {shown.length > 0 ? (
        <Table caption="Keys" columns={columnsFor(shown, spentTeams, days)} rows={drawn} idOf={({ id }) => id} />
      ) : (
        <p class="dim">
          No matching keys. <a href={toHref('/keys')}>Show all active keys</a>
        </p>
      )}
      <ListFoot shown={shown.length} all={keys.length} />
      <More rows={shown.length} most={most} setMost={setMost} />
    </>
  )
}

const NO_DAYS: ReadonlyMap<string, readonly Day[]> = new Map()

const toRequests = (days: readonly Day[] = []) => days.reduce((sum, { requests }) => sum + requests, 0)

/** Columns without a value for any shown key are left out. */
function columnsFor(
  keys: readonly KeyDocument[],
  spentTeams: ReadonlySet<string>,
  days = NO_DAYS,
): Column<KeyDocument>[] {
  const has = (test: (key: KeyDocument) => boolean, column: Column<KeyDocument>) => (keys.some(test) ? [column] : [])
  return [
    {
      name: 'name',
      title: 'Name',
      sortBy: ({ name }) => name,
      cell: ({ id, name, last_four }) => (
        <>
          <a class="row-link" href={toHrefWith({ key: id })}>
            {name}
          </a>{' '}
          <span class="dim last-four not-on-phone">…{last_four}</span>
        </>
      ),
    },
    ...has((key) => key.refused_24h > 0 || toStanding(key, spentTeams) !== 'active', {
      name: 'state',
      title: 'Status',
      sortBy: (key) => `${toStanding(key, spentTeams)} ${key.refused_24h > 0 ? 0 : 1}`,
      cell: (key) => (
        <span class="stacked">
          <StandingMark of={toStanding(key, spentTeams)} />
          <RefusedState of={key} />
        </span>
      ),
    }),
    ...LISTED.filter((name) => !(KEY_FIELDS[name].isForEditors && isMember())).flatMap((name) => {
      // The owner of a member's key is in its team, so both share a column.
      const ownerOf = ({ owner }: KeyDocument) => (name === 'team' && !isMember() ? owner : null)
      return has((key) => key[name] !== null || ownerOf(key) !== null, {
        ...{ name, title: KEY_FIELDS[name].title, isOnPhone: false },
        sortBy: (key) => `${key[name] ?? ''} ${ownerOf(key) ?? ''}`,
        cell: (key) =>
          ownerOf(key) === null ? (
            (key[name] ?? <None />)
          ) : (
            <span class="stacked">
              <span class="long" title={key[name] ?? ''}>
                {key[name]}
              </span>
              <span class="long dim" title={ownerOf(key) ?? ''}>
                {ownerOf(key)}
              </span>
            </span>
          ),
      })
    }),
    { name: 'models', title: 'Models', isOnPhone: false, cell: toShortModels },
    ...has((key) => toShortLimits(key) !== '', {
      name: 'limits',
      title: 'Limits',
      isOnPhone: false,
      cell: (key) => toShortLimits(key) || <None />,
    }),
    ...has(({ budget_nano_usd }) => budget_nano_usd !== null, {
      name: 'budget',
      title: 'Budget',
      isOnPhone: false,
      sortBy: toBudgetShare,
      cell: BudgetCell,
    }),
    {
      name: 'used',
      title: 'Last used',
      isFigure: true,
      sortBy: ({ last_used_ms }) => last_used_ms ?? 0,
      cell: (key) => <LastUsed of={key} />,
    },
    {
      name: 'month',
      title: 'This month',
      isFigure: true,
      sortBy: ({ spent_month_nano_usd }) => spent_month_nano_usd,
      cell: ({ spent_month_nano_usd }) => <Money nanoUsd={spent_month_nano_usd} />,
    },
    ...has(({ last_used_ms }) => last_used_ms !== null, {
      name: 'lately',
      title: `Last ${DAYS} days`,
      isOnPhone: false,
      cell: ({ id }) => {
        const used = days.get(id)
        // Reserves the space, so that nothing moves when the days arrive.
        if (!used) return <span class="sparkline" />
        const label = `${toExactCount(toRequests(used))} requests in the last ${DAYS} days`
        return <Sparkline values={used.map(({ requests }) => requests)} label={label} isLastUnderWay />
      },
    }),
  ]
}

/** In the team that `team` names by ID or name, if there is one. */
export function NewKeyPage() {
  const wanted = named('team')
  const { data: teams, problem, reload } = useTeams()
  const isRead = useChoicesRead()
  if (!mayChangeKeys()) return <NotForYou />
  if (isRead && wanted === null) return <NewKey teamId="" />
  if (isRead && wanted !== null && teams !== null)
    return <NewKey teamId={teams.find(({ id, name }) => [id, name].includes(wanted))?.id ?? ''} />
  return (
    <Page title="New key" above={<a href={toHref('/keys')}>Keys</a>}>
      <Unread of={null} problem={wanted === null ? null : problem} retry={reload}>
        <FactsRoom />
      </Unread>
    </Page>
  )
}

/** Only the name is required. */
function NewKey({ teamId }: { teamId: string }) {
  const [made, setMade] = useState<Awaited<ReturnType<typeof rotateKey>> | null>(null)
  const [sinceMs] = useState(nowMs.value)
  const form = useForm<Values>({ ...KEY_FORM.empty, team: teamId }, async (values) => {
    setMade(await makeKey(values))
    announce('Key created. Copy it now: it is shown once.')
    scrollTo(0, 0)
  })
  const warnings = useKeyWarnings(form.values.value)
  const again = () => {
    form.set({ name: '' })
    setMade(null)
    scrollTo(0, 0)
  }
  if (made) {
    return (
      <Page
        title={`Key ${made.name}`}
        above={<a href={toHref('/keys')}>Keys</a>}
        actions={
          <>
            <Button icon="plus" title="With the same team, models, and limits" onClick={again}>
              Create another
            </Button>
            <ButtonLink href={toHref(`/keys?key=${made.id}`)}>Done</ButtonLink>
          </>
        }
      >
        <CreatedKey id={made.id} secret={made.key} lastUsedMs={null} />
      </Page>
    )
  }
  return (
    <FormPage title="New key" list={['/keys', 'Keys']} form={form} submit="Create key" warnings={warnings}>
      <SettableFields form={form} of={KEY_FIELDS} empty={KEY_FORM.empty} />
      {form.isLost.value && form.problem.value?.kind === 'key_exists' && (
        <LostKey name={form.values.value.name?.trim() ?? ''} sinceMs={sinceMs} onRotated={setMade} />
      )}
    </FormPage>
  )
}

interface LostKeyProps {
  name: string
  /** When the form was opened; older keys are others. */
  sinceMs: number
  onRotated(made: Awaited<ReturnType<typeof rotateKey>>): void
}

/** The key that an attempt created whose response, with the secret, got lost. */
function LostKey({ name, sinceMs, onRotated }: LostKeyProps) {
  const [isBusy, setBusy] = useState(false)
  const key = useKeys().data?.find((one) => one.name === name && one.status === 'active')
  if (!key || key.created_ms < sinceMs || key.last_used_ms !== null) return null
  const rotate = async () => {
    setBusy(true)
    await rotateKey(key, '0').then(onRotated, (error: Error) => tell(error.message, 'bad'))
    setBusy(false)
  }
  return (
    <div class="caution old-secrets">
      <p>Key {name} was created, but the response with its secret was lost. Rotate the key to get a new secret.</p>
      <Button aria-disabled={isBusy} onClick={rotate}>
        Rotate key
      </Button>
    </div>
  )
}
