//! Which behaviours are shown of which provider. A new provider is one line at the end.

use crate::providers::{
    attendant, clips, clocks, conversation, echoes, failover, faults, figures, fillers,
    kit::{vendor, virtual_time},
    openings, outages, questions, records, sessions, stages, survived, tools, turns, waits,
};

/// Tests that every provider passes, handed to another macro behind what it was given.
macro_rules! every {
    ($next:ident! { $($given:tt)* }) => {
        $next! { $($given)*
            outages::a_vendor_that_fails_is_left_alone_and_tried_again
            outages::a_session_is_replaced_in_a_pause_before_the_vendors_limit
            records::a_long_call_is_carried_on_by_a_summary_of_its_beginning_and_the_words_of_its_end
            records::a_long_call_that_is_lost_is_carried_on_by_another_vendor_with_its_beginning_in_short
            turns::a_backchannel_pauses_the_agent_which_goes_on_at_the_exact_sample
            turns::an_agent_is_lowered_before_it_is_paused_and_goes_on_at_the_exact_sample
            turns::an_interruption_silences_the_agent_at_once_and_is_heard_from_its_first_sound
            turns::a_vendor_that_owns_the_turns_decides_alone
            turns::the_end_of_a_turn_is_told_or_left_to_the_vendor_to_find
            turns::a_greeting_is_not_cut_by_noise
            turns::a_protected_greeting_is_not_even_paused
            turns::an_agent_that_cannot_be_interrupted_is_not_even_paused
            clips::a_clip_greets_the_caller_and_the_agent_is_told_its_words
            clips::a_notice_is_heard_to_its_end_whoever_speaks
            clips::a_slow_tool_is_announced_once_and_the_agent_is_told_so
            clips::a_filler_is_not_heard_before_a_quick_answer_and_makes_place_for_a_late_one
            clips::a_slow_tools_own_sentence_is_heard_after_its_own_threshold_and_once
            fillers::a_caller_who_interrupts_a_filler_silences_it_and_is_heard
            fillers::a_filler_is_nobodys_turn
            fillers::a_tool_that_was_slow_before_is_announced_sooner
            fillers::a_tool_that_is_about_to_answer_as_before_is_not_announced
            echoes::an_agent_is_not_stopped_by_its_own_echo
            echoes::a_line_of_heavy_echo_is_half_duplex_until_it_is_gone
            figures::the_latency_that_is_told_is_what_the_caller_hears
            figures::the_time_of_a_connection_is_counted_and_priced
            conversation::the_greeting_is_heard_as_long_as_it_is
            conversation::the_caller_is_answered
            conversation::an_interruption_stops_the_agent_and_late_audio_is_not_heard
            sessions::the_callers_tone_reaches_the_vendor_undistorted_from_every_codec
            sessions::what_a_codec_cannot_carry_is_not_folded_back
            sessions::the_agents_tone_reaches_the_caller_undistorted_in_every_codec
            tools::a_tool_is_called_and_its_result_returned_once
            tools::parallel_calls_are_each_answered_once
            questions::a_question_before_a_tool_is_heard_word_for_word_and_a_yes_runs_it_once
            questions::a_no_to_a_question_before_a_tool_runs_nothing
            questions::a_yes_into_a_question_before_a_tool_does_not_count
            questions::a_yes_to_a_question_counts_though_its_agent_is_lost
            tools::a_result_that_is_too_long_is_cut_to_what_the_vendor_bears
            survived::noise_is_survived
            survived::unknown_and_doubled_ids_are_survived
            openings::a_refused_key_is_told_and_not_tried_again
            openings::an_upgrade_refused_with_any_status_is_told_for_what_it_is
            openings::a_vendor_that_is_not_there_is_unreachable
            openings::an_attempt_that_failed_is_made_again_and_heals
            openings::a_handshake_of_ten_seconds_is_not_waited_for
            openings::a_session_closed_before_its_first_message_is_tried_again_and_then_given_up
            openings::a_session_closed_while_it_is_set_up_is_tried_again_and_then_given_up
            openings::a_set_up_that_is_never_acknowledged_or_answered_with_garbage_is_given_up
            openings::quota_and_throttling_at_the_set_up_are_told_for_what_they_are
            openings::a_caller_is_greeted_by_the_next_provider_when_the_first_one_fails
            faults::a_session_closed_while_the_caller_is_greeted
            faults::a_session_closed_while_nobody_speaks
            faults::a_session_closed_while_the_caller_speaks
            faults::a_session_closed_while_the_caller_waits_for_an_answer
            faults::a_session_closed_while_the_agent_speaks
            faults::a_session_closed_while_an_interruption_is_undecided
            faults::a_session_lost_while_a_backchannel_is_undecided
            faults::a_session_closed_while_a_tool_runs
            faults::a_session_closed_while_a_filler_is_heard
            faults::a_session_closed_while_a_consent_text_is_heard
            faults::a_session_closed_while_the_caller_types
            faults::a_session_closed_while_the_call_is_handed_over
            faults::a_session_closed_while_the_next_one_is_set_up
            faults::a_session_closed_before_its_greeting_is_heard
            faults::a_session_closed_while_the_agent_says_goodbye
            faults::a_connection_that_breaks_without_a_word
            faults::a_connection_that_is_half_open
            faults::a_vendor_that_falls_silent
            waits::without_limits_of_its_own_a_call_with_a_silent_vendor_is_never_silent_for_long
            faults::quota_throttling_and_expiry_in_mid_call
            faults::nothing_but_garbage_in_mid_call
            faults::one_message_of_8_megabytes_is_survived
            faults::a_neighbour_hears_no_gap_while_8_megabytes_are_read
            faults::a_vendor_that_vanishes_from_the_net
            failover::the_next_session_is_told_what_was_said
            failover::a_call_outlives_any_number_of_sessions_that_were_lost
            failover::a_session_closed_right_after_a_result
            failover::a_tool_that_runs_when_its_session_is_lost_runs_once
            failover::another_vendor_goes_on_with_what_was_said_and_with_what_a_tool_found
            failover::a_refused_successor_is_counted_and_another_one_takes_the_call
            clocks::a_wall_clock_that_is_set_changes_nothing
            clocks::a_machine_that_stands_still_for_seconds_costs_time_and_no_word
            failover::a_caller_whom_nobody_can_serve_any_more_hears_the_apology
            attendant::a_caller_of_a_vendor_that_is_down_is_served_by_the_embedded_attendant
        }
    };
}

/// The tests of one column.
macro_rules! column {
    ($column:ident $($test:ident => $course:expr,)*) => {
        mod $column {
            use super::*;
            pub const CASES: &[&str] = &[$(stringify!($test)),*];
            $(
                #[test]
                fn $test() {
                    virtual_time::run(|| $course);
                }
            )*
        }
    };
}

macro_rules! provider {
    ($provider:ident $dialect:ident $($file:ident :: $test:ident)*) => {
        column! { $provider $($test => $file::$test::<vendor::$dialect>(),)* }
    };
}

/// A pipeline has tests of its own, by the same names where they mean the same.
macro_rules! pipeline {
    ($($file:ident :: $test:ident)*) => {
        column! { pipeline $($test => stages::$file::$test(),)* }
    };
}

macro_rules! providers {
    ($($provider:ident)*) => {
        /// Every provider with the names of its tests.
        pub fn providers() -> Vec<(&'static str, &'static [&'static str])> {
            vec![$((stringify!($provider), $provider::CASES)),*]
        }
    };
}

// Behind the dialect: what only some vendors can do.
every! { provider! { openai_realtime OpenAi
    conversation::late_audio_within_the_next_answer_is_not_heard
    records::a_summary_that_is_refused_or_never_comes_leaves_nothing_out
    records::a_late_summary_counts_and_all_that_was_said_since_is_told
    figures::tokens_are_counted_as_they_are_reported_and_priced
    sessions::formats_that_were_not_asked_for_end_the_handshake
    conversation::the_vendor_is_told_how_much_was_heard
} }

every! { provider! { deepgram_agent Deepgram
    tools::a_call_that_was_taken_back_gets_no_answer
} }

every! { provider! { elevenlabs_agent ElevenLabs
    conversation::late_audio_within_the_next_answer_is_not_heard
    sessions::formats_that_were_not_asked_for_end_the_handshake
} }

every! { provider! { gemini_live Gemini
    sessions::a_session_on_vertex_shows_the_token_that_is_in_the_file_by_then
    failover::a_vendor_that_says_it_will_go_and_falls_silent
    failover::a_session_is_resumed_by_its_handle_or_else_told_what_was_said
    figures::tokens_are_counted_as_they_are_reported_and_priced
    tools::a_call_that_was_taken_back_gets_no_answer
} }

pipeline! {
    conversation::the_greeting_is_heard_as_long_as_it_is
    conversation::the_caller_is_answered
    conversation::an_interruption_stops_the_agent_and_late_audio_is_not_heard
    conversation::the_vendor_is_told_how_much_was_heard
    conversation::late_audio_within_the_next_answer_is_not_heard
    memory::a_session_is_replaced_in_a_pause_before_the_vendors_limit
    memory::a_long_call_is_carried_on_by_a_summary_of_its_beginning_and_the_words_of_its_end
    guesses::the_end_of_a_turn_is_told_or_left_to_the_vendor_to_find
    guesses::a_vendor_that_owns_the_turns_decides_alone
    guesses::a_guess_is_thrown_away_when_the_caller_goes_on_and_no_tool_of_it_runs
    guesses::a_guess_that_was_right_is_heard_and_its_tool_runs_once_when_the_turn_is_over
    turns::a_backchannel_pauses_the_agent_which_goes_on_at_the_exact_sample
    turns::an_agent_is_lowered_before_it_is_paused_and_goes_on_at_the_exact_sample
    turns::a_caller_who_interrupts_a_filler_silences_it_and_is_heard
    turns::a_filler_is_nobodys_turn
    fillers::a_tool_that_was_slow_before_is_announced_sooner
    fillers::a_tool_that_is_about_to_answer_as_before_is_not_announced
    echoes::an_agent_is_not_stopped_by_its_own_echo
    echoes::a_line_of_heavy_echo_is_half_duplex_until_it_is_gone
    turns::an_interruption_silences_the_agent_at_once_and_is_heard_from_its_first_sound
    turns::a_greeting_is_not_cut_by_noise
    turns::a_protected_greeting_is_not_even_paused
    turns::an_agent_that_cannot_be_interrupted_is_not_even_paused
    turns::a_clip_greets_the_caller_and_the_agent_is_told_its_words
    turns::a_notice_is_heard_to_its_end_whoever_speaks
    turns::a_slow_tools_own_sentence_is_heard_after_its_own_threshold_and_once
    turns::a_slow_tool_is_announced_once_and_the_agent_is_told_so
    turns::a_filler_is_not_heard_before_a_quick_answer_and_makes_place_for_a_late_one
    figures::the_latency_that_is_told_is_what_the_caller_hears
    figures::tokens_are_counted_as_they_are_reported_and_priced
    figures::the_time_of_a_connection_is_counted_and_priced
    figures::a_vendor_that_fails_is_left_alone_and_tried_again
    sound::the_callers_tone_reaches_the_vendor_undistorted_from_every_codec
    sound::the_agents_tone_reaches_the_caller_undistorted_in_every_codec
    sound::what_a_codec_cannot_carry_is_not_folded_back
    sound::formats_that_were_not_asked_for_end_the_handshake
    tools::a_tool_is_called_and_its_result_returned_once
    tools::parallel_calls_are_each_answered_once
    questions::a_question_before_a_tool_is_heard_word_for_word_and_a_yes_runs_it_once
    questions::a_no_to_a_question_before_a_tool_runs_nothing
    questions::a_yes_into_a_question_before_a_tool_does_not_count
    questions::a_yes_to_a_question_counts_though_its_agent_is_lost
    tools::unknown_and_doubled_ids_are_survived
    tools::a_result_that_is_too_long_is_cut_to_what_the_vendor_bears
    tools::a_session_closed_right_after_a_result
    faults::noise_is_survived
    openings::a_refused_key_is_told_and_not_tried_again
    openings::an_upgrade_refused_with_any_status_is_told_for_what_it_is
    openings::a_vendor_that_is_not_there_is_unreachable
    openings::an_attempt_that_failed_is_made_again_and_heals
    openings::a_handshake_of_ten_seconds_is_not_waited_for
    openings::a_session_closed_before_its_first_message_is_tried_again_and_then_given_up
    openings::a_session_closed_while_it_is_set_up_is_tried_again_and_then_given_up
    openings::a_set_up_that_is_never_acknowledged_or_answered_with_garbage_is_given_up
    openings::quota_and_throttling_at_the_set_up_are_told_for_what_they_are
    openings::a_caller_is_greeted_by_the_next_provider_when_the_first_one_fails
    faults::a_session_closed_while_the_caller_is_greeted
    faults::a_session_closed_while_nobody_speaks
    faults::a_session_closed_while_the_caller_speaks
    faults::a_session_closed_while_the_caller_waits_for_an_answer
    faults::a_session_closed_while_the_agent_speaks
    faults::a_session_closed_while_an_interruption_is_undecided
    faults::a_session_lost_while_a_backchannel_is_undecided
    faults::a_session_closed_while_a_tool_runs
    faults::a_session_closed_while_a_filler_is_heard
    faults::a_session_closed_while_a_consent_text_is_heard
    faults::a_session_closed_while_the_caller_types
    faults::a_session_closed_while_the_call_is_handed_over
    faults::a_connection_that_breaks_without_a_word
    faults::a_connection_that_is_half_open
    faults::a_vendor_that_falls_silent
    waits::without_limits_of_its_own_a_call_with_a_silent_vendor_is_never_silent_for_long
    waits::without_limits_of_their_own_the_next_service_stands_in_before_the_call_gives_up
    faults::one_message_of_8_megabytes_is_survived
    faults::a_neighbour_hears_no_gap_while_8_megabytes_are_read
    faults::another_vendor_goes_on_with_what_was_said_and_with_what_a_tool_found
    faults::a_refused_successor_is_counted_and_another_one_takes_the_call
    faults::quota_throttling_and_expiry_in_mid_call
    faults::nothing_but_garbage_in_mid_call
    vanishes::a_vendor_that_vanishes_from_the_net
    faults::the_next_session_is_told_what_was_said
    faults::a_caller_whom_nobody_can_serve_any_more_hears_the_apology
    attendant::a_caller_of_a_vendor_that_is_down_is_served_by_the_embedded_attendant
    records::a_long_call_that_is_lost_is_carried_on_by_another_vendor_with_its_beginning_in_short
    records::a_summary_that_is_refused_or_never_comes_leaves_nothing_out
    records::a_late_summary_counts_and_all_that_was_said_since_is_told
    clocks::a_wall_clock_that_is_set_changes_nothing
    clocks::a_machine_that_stands_still_for_seconds_costs_time_and_no_word
    breaks::a_model_that_fails_once_is_asked_again
    services::a_model_that_breaks_in_any_state_of_a_call_costs_no_word_and_no_long_silence
    services::a_voice_that_breaks_in_any_state_of_a_call_costs_a_clause_at_most
    services::a_listener_that_is_asked_over_a_half_open_connection_is_asked_again
    protocols::a_listener_of_each_protocol_that_fails_in_a_turn_hears_all_of_it_again
    protocols::a_voice_that_fails_once_is_asked_again
    protocols::a_voice_that_breaks_in_the_middle_of_a_clause_goes_on_with_the_next
    protocols::a_turn_without_words_is_answered
    turns::a_listener_that_is_asked_for_each_turn_tells_a_nod_from_a_word_that_stops_the_agent
    breaks::an_answer_that_ends_in_the_middle_of_a_call_calls_nothing
    breaks::a_call_whose_arguments_come_in_fragments_is_run_with_all_of_them
    breaks::two_calls_that_come_interleaved_are_each_run_with_their_own
    breaks::a_clause_of_10_kilobytes_is_spoken_in_parts_as_far_as_it_is_heard
    breaks::sound_in_odd_pieces_and_at_any_rate_is_heard_at_its_pitch_and_length
    protocols::words_that_come_when_the_answer_has_begun_change_nothing
    services::the_connection_of_an_answer_is_kept_for_the_next_question
    conversation::an_interruption_ends_model_and_voice_within_a_frame_and_leaves_what_was_heard
    ranks::the_next_listener_stands_in
    ranks::the_next_listener_takes_over_in_the_middle_of_a_turn
    ranks::the_next_model_stands_in
    ranks::the_next_voice_stands_in
    ranks::the_next_service_stands_in_for_one_that_hangs
    ranks::a_service_that_fails_again_and_again_is_left_in_peace
}

providers! { openai_realtime deepgram_agent elevenlabs_agent gemini_live pipeline }
