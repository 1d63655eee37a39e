/** One key: spend, recent requests, settings, and actions. */

import { useState } from 'preact/hooks'
import type { KeyDocument } from '../../documents/key.ts'
import { KEY_FIELDS } from '../../keys/definition.ts'
import { toStanding } from '../../keys/standing.ts'
import { named, setQuery, toHref } from '../address/address.ts'
import { nowMs } from '../api/clock.ts'
import { isMember } from '../api/session.ts'
import { toDay, toExactCount, toMoney } from '../figures/figures.ts'
import { STATUS_KINDS as REQUEST_KINDS, STATUS_TEXTS } from '../requests/statuses.ts'
import { useSpentTeams } from '../teams/data.ts'
import { Button, Id } from '../ui/controls.tsx'
import { useEdit, useEditing } from '../ui/edit.tsx'
import { Columns, Fact, Latency, Moment, Money, State, TimeFact, When } from '../ui/figure.tsx'
import { EditForm, Form, SelectField, TextField, useForm } from '../ui/form.tsx'
import { FactsRoom, Overlay, tell, Unread } from '../ui/notice.tsx'
import { FormDialog } from '../ui/resource.tsx'
import { CreatedKey } from './created.tsx'
import {
  editKey,
  endOverlap,
  mayChangeKeys,
  readKey,
  revokeKey,
  rotateKey,
  useDays,
  useKey,
  useLastRequests,
} from './data.ts'
import { RefusedFact, RefusedState, SettableFacts, Spent, StandingMark } from './facts.tsx'
import { SettableFields } from './fields.tsx'
import { KEY_FORM, KEY_GROUPS } from './values.ts'
import { useKeyWarnings } from './warn.ts'
import { DAYS, type Day, toCeilingTexts } from './words.ts'

export function KeyDrawer({ id, onClose }: { id: string; onClose(): void }) {
  const { data: key, problem, reload } = useKey(id)
  const spentTeams = useSpentTeams()
  const [open, setOpen] = useState<'edit' | 'rotate' | 'revoke' | null>(
    named('edit') !== null && mayChangeKeys() ? 'edit' : null,
  )
  const close = () => {
    setOpen(null)
    setQuery({ edit: null })
  }
  return (
    <Overlay kind="drawer" title={key?.name ?? 'Key'} onClose={onClose}>
      <Unread of={key} problem={problem} retry={reload}>
        <FactsRoom />
      </Unread>
      {key !== null && (
        <>
          <p class="drawer-line">
            <StandingMark of={toStanding(key, spentTeams)} />
            <RefusedState of={key} />
            <span class="dim">ID</span> <Id id={key.id} />
          </p>
          <OldSecrets of={key} />
          <Spent of={key} />
          {open !== 'edit' && <LastDays of={key} />}
          {open === 'edit' ? <Edit of={key} onDone={close} /> : <Facts of={key} />}
          {open !== 'edit' && key.status !== 'revoked' && mayChangeKeys() && (
            <div class="form-foot">
              <Button onClick={() => setOpen('edit')}>Edit</Button>
              {key.status === 'active' && <Button onClick={() => setOpen('rotate')}>Rotate</Button>}
              <Button kind="bad" onClick={() => setOpen('revoke')}>
                Revoke
              </Button>
            </div>
          )}
          {open !== 'edit' && <LastRequests of={key} />}
          {open === 'rotate' && <RotateDialog of={key} onClose={close} />}
          {open === 'revoke' && <RevokeDialog of={key} onClose={close} />}
        </>
      )}
    </Overlay>
  )
}

/** Old secrets of a rotated key, until they expire. */
function OldSecrets({ of: key }: { of: KeyDocument }) {
  const [isEnding, setEnding] = useState(false)
  const old = key.secrets.slice(0, -1).filter(({ expires_ms: ms }) => ms === null || ms > nowMs.value)
  if (old.length === 0 || key.status !== 'active') return null
  const them = old.length === 1 ? 'it' : 'them'
  return (
    <div class="caution old-secrets">
      <div>
        {old.map(({ last_four, created_ms, expires_ms }) => (
          <p key={created_ms}>
            The old secret <code>…{last_four}</code> works until{' '}
            {expires_ms === null ? 'the key is revoked' : <Moment ms={expires_ms} />}.
          </p>
        ))}
      </div>
      {mayChangeKeys() && <Button onClick={() => setEnding(true)}>End {them} now</Button>}
      {isEnding && (
        <FormDialog
          title={old.length === 1 ? 'End the old secret?' : 'End the old secrets?'}
          initial={{}}
          send={async () => {
            await endOverlap(key)
            return 'Ended. Only the newest secret works.'
          }}
          submit={`End ${them}`}
          kind="bad"
          onClose={() => setEnding(false)}
        >
          <p>Clients that still use {them} fail immediately. This can't be undone.</p>
        </FormDialog>
      )}
    </div>
  )
}

function Facts({ of: key }: { of: KeyDocument }) {
  const ceilings = Object.entries(toCeilingTexts(key.ceilings))
  return (
    <dl class="facts">
      {key.owner !== null && !isMember() && <Fact name="Owner">{key.owner}</Fact>}
      <SettableFacts fields={KEY_FIELDS} of={key} />
      <Fact name="Last used">
        {key.last_used_ms === null ? (
          'never'
        ) : (
          <>
            <When ms={key.last_used_ms} /> with <code>{key.last_model}</code>
          </>
        )}
      </Fact>
      <RefusedFact of={key} by="key" />
      {ceilings.length > 0 && (
        <Fact name="Administrator limits">
          {ceilings.map(([field, text]) => (
            <p key={field}>{text}</p>
          ))}
        </Fact>
      )}
      <Fact name="Secrets">
        {key.secrets.map(({ last_four, created_ms, expires_ms }) => (
          <p key={created_ms}>
            <code>…{last_four}</code> created <When ms={created_ms} />
            {expires_ms !== null && (
              <>
                , {expires_ms > nowMs.value ? 'expires' : 'expired'} <When ms={expires_ms} mayBeAhead />
              </>
            )}
          </p>
        ))}
      </Fact>
      <TimeFact name="Created" ms={key.created_ms} />
      <TimeFact name="Revoked" ms={key.revoked_ms} />
    </dl>
  )
}

function Edit({ of, onDone }: { of: KeyDocument; onDone(): void }) {
  const { id } = of
  const form = useEdit(
    { of, toValues: KEY_FORM.toValues, read: () => readKey(id), subject: id, groups: KEY_GROUPS },
    async (values, before) => {
      await editKey(before, values)
      tell('Saved. Applies to new requests.')
      onDone()
    },
  )
  const key = form.base.value
  const warnings = useKeyWarnings(form.values.value, key)
  return (
    <EditForm of={form} warnings={warnings} onCancel={onDone}>
      <SettableFields
        form={form}
        of={KEY_FIELDS}
        empty={KEY_FORM.empty}
        kept={key.expires_ms === null ? null : `Keep: ${toDay(key.expires_ms, nowMs.value)}`}
        most={isMember() ? toCeilingTexts(key.ceilings) : {}}
      />
    </EditForm>
  )
}

function LastDays({ of: key }: { of: KeyDocument }) {
  const days = useDays([key.id]).data
  if (days !== null) return <Days of={days.get(key.id) ?? []} />
  // Reserves the space, so that nothing moves when the days arrive.
  return key.last_used_ms === null ? null : <div class="lately" />
}

function Days({ of: days }: { of: readonly Day[] }) {
  if (days.length === 0) return null
  const isFree = days.every(({ costNanoUsd }) => costNanoUsd === 0)
  const textOf = (requests: number, costNanoUsd: number) =>
    `${toExactCount(requests)} ${requests === 1 ? 'request' : 'requests'}${isFree ? '' : `, ${toMoney(costNanoUsd)}`}`
  const sum = (pick: (day: Day) => number) => days.reduce((all, day) => all + pick(day), 0)
  const total = textOf(
    sum(({ requests }) => requests),
    sum(({ costNanoUsd }) => costNanoUsd),
  )
  return (
    <section class="lately">
      <h3 class="lately-title">
        {total} in the last {DAYS} days
      </h3>
      <Columns
        values={days.map(({ requests, costNanoUsd }) => (isFree ? requests : costNanoUsd))}
        label={`By day: ${total}`}
        isLastUnderWay
        titleOf={(index) => {
          const day = days[index]
          return day ? `${toDay(day.ms, nowMs.value, 'UTC')}: ${textOf(day.requests, day.costNanoUsd)}` : ''
        }}
      />
    </section>
  )
}

function LastRequests({ of: key }: { of: KeyDocument }) {
  const requests = useLastRequests(key.id).data ?? []
  if (requests.length === 0) return null
  return (
    <section>
      <h3 class="lately-title">Last requests</h3>
      <ul class="last-requests">
        {requests.map(({ id, created_ms, model, status, cost_nano_usd, duration_ms, estimated }) => (
          <li key={id} class="last-request">
            <State kind={REQUEST_KINDS[status]}>{STATUS_TEXTS[status]}</State>
            <a href={toHref(`/requests/${id}`)} title={model}>
              <code>{model}</code>
            </a>
            <span class="dim">{duration_ms !== null && <Latency ms={duration_ms} />}</span>
            {cost_nano_usd === null ? <span /> : <Money nanoUsd={cost_nano_usd} isEstimated={estimated === 1} />}
            <span class="dim">
              <When ms={created_ms} />
            </span>
          </li>
        ))}
      </ul>
      <p class="lately-all">
        <a href={toHref(`/requests?key=${key.id}`)}>All requests</a>
      </p>
    </section>
  )
}

const OVERLAPS = [
  ['24h', 'For 1 day'],
  ['1h', 'For 1 hour'],
  ['7d', 'For 7 days'],
  ['30d', 'For 30 days'],
  ['0', 'No time: it leaked'],
] as const

/** The old secret keeps working for a while, so that clients can switch. */
function RotateDialog({ of: key, onClose }: { of: KeyDocument; onClose(): void }) {
  const [secret, setSecret] = useState<string | null>(null)
  const [lastUsedMs] = useState(key.last_used_ms)
  const editing = useEditing({ of: key, read: () => readKey(key.id), subject: key.id })
  const rotate = async (overlap: string) => setSecret((await rotateKey(editing.base.value, overlap)).key)
  const form = useForm({ overlap: '24h' }, ({ overlap }) => rotate(overlap), editing)
  if (secret !== null) {
    return (
      <Overlay title={`New secret for ${key.name}`} onClose={onClose}>
        <CreatedKey id={key.id} secret={secret} lastUsedMs={lastUsedMs} />
        <div class="form-foot">
          <Button onClick={onClose}>Done</Button>
        </div>
      </Overlay>
    )
  }
  return (
    <Overlay title={`Rotate ${key.name}`} onClose={onClose}>
      <p>Creates a new secret, shown once. Name, limits, budget, and history don't change.</p>
      <Form of={form} submit="Create new secret">
        <SelectField of={form} name="overlap" label="Keep the old secret working" options={OVERLAPS} />
      </Form>
    </Overlay>
  )
}

/** Asks for the key's name, because this can't be undone. */
const RevokeDialog = ({ of: key, onClose }: { of: KeyDocument; onClose(): void }) => (
  <FormDialog
    title={`Revoke ${key.name}`}
    initial={{ name: '' }}
    send={async () => {
      await revokeKey(key.id)
      return `Revoked ${key.name}.`
    }}
    submit="Revoke key"
    kind="bad"
    isReady={({ name }) => name.trim() === key.name}
    fields={(form) => <TextField of={form} name="name" label={`Type ${key.name} to confirm`} autoFocus />}
    onClose={onClose}
  >
    <p>
      Requests with this key fail immediately. This can't be undone. Usage history is kept. If the key leaked but is
      still needed, <em>rotate</em> it instead.
    </p>
  </FormDialog>
)
